#pragma once

#include <cstdint>
#include <string>

namespace tutti::membership {

struct AgreementScenario {
  int members = 16;
  bool flat = false;         // everyone right below the leader, as among few
  int dead_before = 0;       // whom all know to be dead when they start
  bool leader_dies = false;  // while it proposes
  int inner_deaths = 0;      // of members below which others are, while joins and accepts are under way
  double last_start = 0.01;  // seconds
  std::uint64_t seed = 1;
};

/// Runs it, and prints what each member sent and received. Returns whether all who live agreed on the same set, which
/// holds them all, and on the same table.
bool measure_agreement(const std::string& name, const AgreementScenario& scenario);

}  // namespace tutti::membership
