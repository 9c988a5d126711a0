// What agents, the collector and those who ask it say to one another, once both ends of a connection have proven that
// they know the token (net/pending_connection.hpp; the purpose is `report`). Whoever dials greets with a Hello. Then
// come frames: the length of a payload, what it is, and the payload.
//
//   agent      telemetry  a job as this host sees it, as telemetry_json.hpp writes it
//              look       what holds until now: the jobs that are here, and that nothing else has moved since the last
//              alive      the agent is there, and has not looked again yet
//   collector  pace       the answer to each look: stamps for the offset of clocks, and how closely to look
//   asker      ask        wants all that the collector knows
//   collector  hosts      the agents, as JSON
//              job        the telemetry of a whole job
//              end        that was all
//
// Lengths are checked before anything is kept, contents when they are decoded. Values and pure functions; one thread
// for a ReportReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/wire.hpp"
#include "tutti/error.hpp"

namespace tutti::agent {

enum class FrameKind : std::uint8_t { telemetry = 1, look, alive, pace, ask, hosts, job, end };
inline constexpr int kFrameKinds = 8;
std::string_view name_of(FrameKind kind);

struct Frame {
  FrameKind kind{};
  std::string payload;
};

/// As bytes on the wire.
Blob encode(FrameKind kind, std::string_view payload);

/// Puts frames together from bytes that come in any pieces. It holds what of a frame has come, never more.
class ReportReader {
 public:
  /// Payloads of more than `most_bytes` are refused.
  explicit ReportReader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  void add(std::span<const std::byte> bytes);
  /// The next whole frame, if there is one. An error is final.
  Result<std::optional<Frame>> next();

 private:
  std::size_t most_bytes_;
  Blob bytes_;
  std::size_t taken_ = 0;  // of these
};

/// The greeting.
struct Hello {
  enum class Speaker : std::uint8_t { agent = 1, asker = 2 };

  Speaker speaker = Speaker::agent;
  std::string host;
  std::uint64_t place = 0;  // tells agents of one host apart: different users, or containers
};
inline constexpr std::size_t kMostHelloBytes = 512;
Blob encode(const Hello& hello);
Result<Hello> decode_hello(std::span<const std::byte> bytes);

struct LookMessage {
  double looked_at = 0;  // on the agent's clock, as all moments are but those in PaceMessage
  std::int64_t sent = 0;
  bool offset_known = false;
  std::int64_t offset = 0;          // nanoseconds to add to the agent's clock to have the collector's
  std::vector<std::uint64_t> jobs;  // ids of all that are here
};
inline constexpr std::size_t kMostJobs = 64;  // of a host
std::string encode(const LookMessage& look);
Result<LookMessage> decode_look(std::string_view payload);

/// Nanoseconds.
struct PaceMessage {
  std::int64_t sent = 0;   // of the look that this answers; 0: of none
  std::int64_t heard = 0;  // on the collector's clock
  std::int64_t told = 0;
  bool incident = false;  // look closely
};
std::string encode(const PaceMessage& pace);
Result<PaceMessage> decode_pace(std::string_view payload);

}  // namespace tutti::agent
