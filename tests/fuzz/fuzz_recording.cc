// A file in the folder of recordings holds anything at all: it is read as well-formed values, or refused. The first
// byte says whether the head is made one of a recording of this size, so that what lies behind it is reached.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "monitor/read/cluster_report.hpp"
#include "monitor/read/recording.hpp"

namespace {

using namespace tutti::monitor;

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::byte> behind_a_head(std::span<const std::byte> given) {
  const Shape shape{1, 2, 2, 1, 2, 2};
  std::vector<std::byte> bytes(Map::bytes(shape));
  const auto* const start = reinterpret_cast<const std::byte*>(&Map(bytes.data(), shape).communicator(0));
  const auto offset = static_cast<std::size_t>(start - bytes.data());
  std::copy_n(given.begin(), std::min(given.size(), bytes.size() - offset), bytes.begin() + static_cast<long>(offset));
  auto& head = *reinterpret_cast<Head*>(bytes.data());
  head.magic.set(kMagic);
  head.version.set(kVersion);
  head.bytes.set(static_cast<std::uint32_t>(bytes.size()));
  head.communicators.set(shape.communicators);
  head.operations.set(shape.operations);
  head.steps.set(shape.steps);
  head.lanes.set(shape.lanes);
  head.chunks.set(shape.chunks);
  head.events.set(shape.events);
  return bytes;
}

void require_well_formed(const ProcessView& process) {
  for (const CommunicatorView& each : process.communicators) {
    require(each.rank >= 0 && each.rank < each.size);
    for (const PendingView& pending : each.pending) require(pending.awaited < each.size);
    for (const LinkView& link : each.links) require(link.peer >= 0 && link.peer < each.size);
    require(std::all_of(each.error.begin(), each.error.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  }
  for (const LaneView& lane : process.lanes) require(std::isfinite(lane.rate) && name_of(lane.condition) != nullptr);
  for (const EventView& event : process.events) require(name_of(event.kind) != nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::span<const std::byte> given = std::as_bytes(std::span(data, size)).subspan(1);
  const std::vector<std::byte> bytes =
      (data[0] & 1) != 0 ? behind_a_head(given) : std::vector<std::byte>(given.begin(), given.end());
  const RecordingSource source{bytes.size(), [&](std::size_t offset, std::span<std::byte> to) {
                                 if (offset > bytes.size() || to.size() > bytes.size() - offset) return false;
                                 std::memcpy(to.data(), bytes.data() + offset, to.size());
                                 return true;
                               }};
  const auto process = read_recording(source, false, Detail::all());
  if (!process) return 0;
  require_well_formed(*process);
  Snapshot snapshot;
  snapshot.processes = {*process, *process};
  snapshot.processes[0].alive = (data[0] & 2) != 0;
  require(analyze(snapshot).processes.size() == 2);
  return 0;
}
