#include "diagnosis/telemetry/telemetry_check.hpp"

#include <fmt/core.h>

#include <limits>

namespace tutti::diagnosis {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kMostPaths = 1 << 16;
constexpr int kMostGpus = 1 << 10;
constexpr int kMostMegahertz = 1 << 20;

class TelemetryCheck {
 public:
  explicit TelemetryCheck(const Telemetry& telemetry) : processes_(static_cast<int>(telemetry.processes.size())) {}

  Status status() const { return status_; }

  void gpu(const GpuFacts& facts);
  void communicator(const CommunicatorFacts& facts);
  void stays(const CommunicatorFacts& facts);
  void gathering(const GatheringFacts& facts);
  void pair(const char* what, int source, int destination, int path) {
    process(what, source, 0);
    process(what, destination, 0);
    range(what, "path", path, 0, kMostPaths);
  }
  void lane(const LaneFacts& facts) {
    process("lanes", facts.process, 0);
    process("lanes", facts.peer, -1);
    range("lanes", "path", facts.path, 0, kMostPaths);
  }

 private:
  void process(const char* what, int index, int least) { range(what, "process", index, least, processes_); }
  void range(const char* what, const char* field, std::int64_t value, std::int64_t least, std::int64_t end) {
    if (value >= least && value < end) return;
    wrong(fmt::format("{}: {} {} is out of range; expected {} to {}", what, field, value, least, end - 1));
  }
  void wrong(std::string text) {
    if (status_) status_ = fail(ErrorCode::invalid_argument, std::move(text));
  }

  int processes_;
  Status status_;
};

void TelemetryCheck::gpu(const GpuFacts& facts) {
  range("gpus", "index", facts.index, 0, kMostGpus);
  range("gpus", "clock", facts.clock, 0, kMostMegahertz);
  range("gpus", "max_clock", facts.max_clock, 0, kMostMegahertz);
  for (const XidFacts& xid : facts.xids) range("xids", "code", xid.code, 0, std::numeric_limits<int>::max());
}

void TelemetryCheck::communicator(const CommunicatorFacts& facts) {
  range("communicators", "size", facts.size, 1, kMostRanks);
  int last = -1;
  for (const MemberFacts& member : facts.members) {
    range("members", "rank", member.rank, 0, facts.size);
    if (member.rank <= last) wrong(fmt::format("members: rank {} comes after rank {}", member.rank, last));
    last = member.rank;
    process("members", member.process, -1);
    for (const OperationFacts& operation : member.operations)
      range("operations", "root", operation.call.root, 0, facts.size);
  }
  for (const FlowFacts& flow : facts.flows) {
    range("flows", "source", flow.source, 0, facts.size);
    range("flows", "destination", flow.destination, 0, facts.size);
  }
  for (const WaitFacts& wait : facts.waits) {
    range("waits", "waiter", wait.waiter, 0, facts.size);
    range("waits", "awaited", wait.awaited, 0, facts.size);
  }
  stays(facts);
}

void TelemetryCheck::stays(const CommunicatorFacts& facts) {
  range("stretches", "length", facts.stretch_length, 0, kMostRanks);
  int last = -1;
  for (const StayFacts& stay : facts.stays) {
    range("stays", "rank", stay.rank, last + 1, facts.size);
    last = stay.rank;
    if (stay.microseconds.size() != facts.stretches.size())
      wrong(fmt::format("stays: rank {} has {} values for {} stretches", stay.rank, stay.microseconds.size(),
                        facts.stretches.size()));
  }
}

void TelemetryCheck::gathering(const GatheringFacts& facts) {
  range("gatherings", "size", facts.size, 1, kMostRanks);
  int last = -1;
  for (const int rank : facts.joined) {
    range("gatherings", "rank", rank, last + 1, facts.size);
    last = rank;
  }
  for (const WaitingRankFacts& waiting : facts.waiting) {
    range("gatherings", "rank", waiting.rank, 0, facts.size);
    process("gatherings", waiting.process, -1);
  }
}

}  // namespace

Status check_telemetry(const Telemetry& telemetry) {
  TelemetryCheck check(telemetry);
  for (const ProcessFacts& process : telemetry.processes)
    for (const GpuFacts& each : process.gpus) check.gpu(each);
  for (const CommunicatorFacts& each : telemetry.communicators) check.communicator(each);
  for (const GatheringFacts& each : telemetry.gatherings) check.gathering(each);
  for (const DelayFacts& each : telemetry.delays) check.pair("delays", each.source, each.destination, each.path);
  for (const CorruptionFacts& each : telemetry.corruptions)
    check.pair("corruptions", each.source, each.destination, each.path);
  for (const LaneFacts& each : telemetry.lanes) check.lane(each);
  return check.status();
}

}  // namespace tutti::diagnosis
