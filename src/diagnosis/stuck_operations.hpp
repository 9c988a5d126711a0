// Operations that stand still, who is in them, who is missing, and which of them wait for which others. Pure.
//
// An operation waits for another if a rank that is missing in the one is held up in the other. Operations of all
// communicators are compared, so that one rank that is missing explains all that stands still because of it.
#pragma once

#include <cstdint>
#include <vector>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

/// A member that is missing in an operation because it is in another.
struct HeldUp {
  std::size_t member = 0;
  std::size_t operation = 0;  // the other one
};

struct StuckOperation {
  std::size_t communicator = 0;  // index in the telemetry
  CallFacts call;
  double since = 0;                  // the first rank entered it
  double still = 0;                  // seconds for which nothing of it has moved
  bool overdue = false;              // longer than the job's rhythm explains
  std::vector<std::size_t> inside;   // members that are in it
  std::vector<std::size_t> missing;  // members that have not entered it
  std::vector<std::size_t> free;     // of these: nothing else holds them up
  std::vector<HeldUp> held_up;       // the others
  std::vector<int> unknown;          // ranks of which nothing is known
};

std::vector<StuckOperation> stuck_operations(const Telemetry& telemetry, const DiagnosisOptions& options);

/// For how long operations of this signature may stand still in this communicator.
double patience_for(const CommunicatorFacts& communicator, std::uint32_t signature, const DiagnosisOptions& options);

/// Null: nothing is known of this rank.
const MemberFacts* find_member(const CommunicatorFacts& communicator, int rank);
/// The number of the last collective that it has entered; -1: none.
std::int64_t last_entered(const MemberFacts& member);
bool has_entered(const MemberFacts& member, std::uint32_t number);
bool is_collective(const OperationFacts& operation);
/// False where the process is gone, or nothing is known of it.
bool is_alive(const Telemetry& telemetry, const MemberFacts& member);

}  // namespace tutti::diagnosis
