#include "cli/topology/measure_pair.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "measure/fit.hpp"

namespace tutti::cli {
namespace {

constexpr int kMostRepeats = 40;
constexpr int kChunks = 8;
constexpr std::uint64_t kMostChunk = 64 << 10;  // larger ones are all bandwidth
constexpr std::uint64_t kSmall = 8;             // bytes whose time is latency

Status send_bytes(Communicator& communicator, const void* data, std::size_t bytes, int peer) {
  return communicator.send(data, bytes, DataType::uint8, peer);
}
Status recv_bytes(Communicator& communicator, void* data, std::size_t bytes, int peer) {
  return communicator.recv(data, bytes, DataType::uint8, peer);
}

/// What a larger message will take, if time grows with its size.
double grown(const SizeTime& time, std::uint64_t bytes) {
  return time.seconds * static_cast<double>(bytes) / static_cast<double>(time.bytes);
}

}  // namespace

Status PairMeasurement::in_a_row(const Batch& batch, bool sends) {
  Group group;
  for (int chunk = 0; chunk < batch.chunks; ++chunk) {
    std::byte* const data = buffer_.data() + static_cast<std::size_t>(chunk) * batch.bytes;
    const Status issued = sends ? send_bytes(communicator_, data, batch.bytes, peer_)
                                : recv_bytes(communicator_, data, batch.bytes, peer_);
    if (!issued) return issued;
  }
  return group.end();
}

Result<double> PairMeasurement::round_trip(const Batch& batch) {
  if (Status told = send_bytes(communicator_, &batch, sizeof batch, peer_); !told) return tl::unexpected(told.error());
  std::vector<double> times;
  for (int repeat = 0; repeat < batch.repeats; ++repeat) {
    std::byte acknowledgement{};
    const std::uint64_t start = ticks();
    if (Status sent = in_a_row(batch, true); !sent) return tl::unexpected(sent.error());
    if (Status got = recv_bytes(communicator_, &acknowledgement, 1, peer_); !got) return tl::unexpected(got.error());
    times.push_back(microseconds_since(start) * 1e-6);
  }
  return median(std::move(times));
}

Status PairMeasurement::answer(const Batch& batch) {
  for (int repeat = 0; repeat < batch.repeats; ++repeat) {
    if (Status got = in_a_row(batch, false); !got) return got;
    const std::byte acknowledgement{};
    if (Status sent = send_bytes(communicator_, &acknowledgement, 1, peer_); !sent) return sent;
  }
  return {};
}

Result<double> PairMeasurement::one_way(std::uint64_t bytes, double seconds) {
  const std::uint64_t start = ticks();
  auto first = round_trip({bytes, 1, 1});
  if (!first) return first;
  const double left = seconds - microseconds_since(start) * 1e-6;
  const int repeats = static_cast<int>(std::clamp(left / *first, 0.0, double{kMostRepeats}));
  // A first message may find a connection cold; it counts only where there is no time for others.
  if (repeats == 0) return std::max(*first - back_, 1e-9);
  auto more = round_trip({bytes, repeats, 1});
  if (!more) return more;
  return std::max(*more - back_, 1e-9);
}

Status PairMeasurement::time_chunks(PairTimes& pair, double seconds) {
  // The largest of these sizes of which a row fits into the time.
  const auto fits = [&](const SizeTime& time) {
    return 2 * kChunks * time.seconds <= seconds && time.bytes <= kMostChunk;
  };
  const auto found = std::find_if(pair.times.rbegin(), pair.times.rend(), fits);
  if (found == pair.times.rend()) return {};
  const int repeats = static_cast<int>(std::clamp(seconds / (kChunks * found->seconds) - 1, 1.0, 10.0));
  for (const int each : {1, repeats}) {  // the first warms up
    const auto row = round_trip({found->bytes, each, kChunks});
    if (!row) return tl::unexpected(row.error());
    pair.back_to_back = std::max(*row - back_, 1e-9) / kChunks;
  }
  pair.chunk_bytes = found->bytes;
  pair.one_by_one = found->seconds;
  return {};
}

Result<PairTimes> PairMeasurement::lead(const std::vector<std::uint64_t>& sizes, double seconds) {
  const Deadline deadline = Deadline::in(seconds * 7 / 8);  // the rest is for chunks
  PairTimes pair;
  pair.from = communicator_.rank();
  pair.to = peer_;
  back_ = 0;
  if (const auto cold = round_trip({kSmall, 2, 1}); !cold) return tl::unexpected(cold.error());
  const auto small = one_way(kSmall, seconds / 8);
  if (!small) return tl::unexpected(small.error());
  back_ = *small / 2;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double left = deadline.seconds_left();
    const double expected = pair.times.size() < 2 ? 0 : grown(pair.times.back(), sizes[i]);
    // It must fit twice: cold, and then to be measured.
    if (2 * expected > left) break;
    const bool is_last = i + 1 == sizes.size() || 4 * grown({sizes[i], expected}, sizes[i + 1]) > left;
    const auto time = one_way(sizes[i], is_last ? left : std::max(seconds / 8, left / 3));
    if (!time) return tl::unexpected(time.error());
    pair.times.push_back({sizes[i], *time});
  }
  if (Status timed = time_chunks(pair, seconds / 8); !timed) return tl::unexpected(timed.error());
  const Batch end;
  if (Status told = send_bytes(communicator_, &end, sizeof end, peer_); !told) return tl::unexpected(told.error());
  return pair;
}

Status PairMeasurement::follow() {
  while (true) {
    Batch batch;
    if (Status heard = recv_bytes(communicator_, &batch, sizeof batch, peer_); !heard) return heard;
    if (batch.repeats == 0) return {};
    if (Status done = answer(batch); !done) return done;
  }
}

}  // namespace tutti::cli
