#include "cli/topology/measure_run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/clock.hpp"
#include "cli/topology/measure_pair.hpp"
#include "measure/pair_table.hpp"
#include "measure/plan.hpp"

namespace tutti::cli {
namespace {

constexpr double kPairShare = 0.6;             // of the time, for pairs alone
constexpr double kMostPairSeconds = 1;         // each way
constexpr double kMostFlowSeconds = 0.5;       // that flows together would take alone
constexpr double kMostFlowBytes = 32 << 20;    // of one flow
constexpr std::size_t kPieceBytes = 4 << 20;   // of a flow at a time
constexpr std::size_t kBufferBytes = 8 << 20;  // for chunks in a row

/// A pair's figures, in a form that travels.
struct PairRecord {
  static constexpr std::size_t kMostSizes = 32;
  std::uint64_t sizes = 0;
  SizeTime times[kMostSizes] = {};
  std::uint64_t chunk_bytes = 0;
  double one_by_one = 0;
  double back_to_back = 0;
};

PairRecord packed(const PairTimes& pair) {
  PairRecord record;
  record.sizes = std::min(pair.times.size(), PairRecord::kMostSizes);
  std::copy_n(pair.times.begin(), record.sizes, record.times);
  record.chunk_bytes = pair.chunk_bytes;
  record.one_by_one = pair.one_by_one;
  record.back_to_back = pair.back_to_back;
  return record;
}

PairTimes unpacked(const PairRecord& record, int from, int to) {
  PairTimes pair{from, to, {}, record.chunk_bytes, record.one_by_one, record.back_to_back};
  pair.times.assign(record.times, record.times + record.sizes);
  return pair;
}

/// One rank's part.
class JobMeasurement {
 public:
  JobMeasurement(Communicator& communicator, const MeasureOptions& options,
                 const std::function<void(const MeasureProgress&)>& tell)
      : communicator_(communicator), options_(options), tell_(tell), rank_(communicator.rank()) {
    const std::uint64_t largest = options.sizes.empty() ? 0 : options.sizes.back();
    buffer_.resize(std::max<std::size_t>(kBufferBytes, largest));
    found_.host_of = communicator.layout().host_of_rank;
  }

  Result<Measurements> run() {
    const Deadline all = Deadline::in(options_.seconds);
    if (Status done = measure_pairs(Deadline::in(kPairShare * options_.seconds)); !done)
      return tl::unexpected(done.error());
    if (Status done = measure_together(all); !done) return tl::unexpected(done.error());
    return std::move(found_);
  }

 private:
  /// What rank 0 says, once all ranks are here.
  Result<double> agreed(double value) {
    if (rank_ != 0) value = std::numeric_limits<double>::infinity();
    const Status told = communicator_.all_reduce(&value, &value, 1, DataType::float64, Operator::min);
    if (!told) return tl::unexpected(told.error());
    return value;
  }

  Status measure_pairs(Deadline deadline) {
    const auto pairs = pairs_in_rounds(found_.ranks());
    std::vector<PairTimes> mine;
    std::size_t done = 0;
    for (const auto& [a, b] : pairs) {
      tell_({fmt::format("pair {} {}", a, b), done, pairs.size()});
      // Time that fast pairs have left over goes to those that come.
      const double share = deadline.seconds_left() / static_cast<double>(pairs.size() - done) / 2;
      const auto seconds = agreed(deadline.passed() ? 0.0 : std::clamp(share, 0.02, kMostPairSeconds));
      if (!seconds) return tl::unexpected(seconds.error());
      found_.sampled = *seconds <= 0;
      if (found_.sampled) break;
      ++done;
      if (rank_ != a && rank_ != b) continue;
      PairMeasurement pair(communicator_, rank_ == a ? b : a, buffer_);
      for (const int leader : {a, b}) {
        if (leader != rank_) {
          if (Status followed = pair.follow(); !followed) return followed;
          continue;
        }
        auto times = pair.lead(options_.sizes, *seconds);
        if (!times) return tl::unexpected(times.error());
        mine.push_back(std::move(*times));
      }
    }
    return gather(mine, done);
  }

  /// Every rank gets what all have measured, in the order of pairs. A rank has led once in each pair it is part of.
  Status gather(const std::vector<PairTimes>& mine, std::size_t pairs) {
    const auto order = pairs_in_rounds(found_.ranks());
    std::vector<std::size_t> bytes(static_cast<std::size_t>(communicator_.size()));
    for (std::size_t i = 0; i < pairs; ++i)
      for (const int rank : {order[i].first, order[i].second})
        bytes[static_cast<std::size_t>(rank)] += sizeof(PairRecord);
    std::vector<PairRecord> own, all(2 * pairs);
    for (const PairTimes& pair : mine) own.push_back(packed(pair));
    const Status gathered = communicator_.all_gather_v(own.data(), all.data(), bytes, {}, DataType::uint8);
    if (!gathered) return gathered;
    std::vector<std::size_t> next(bytes.size());  // record of each rank
    for (std::size_t rank = 1; rank < next.size(); ++rank)
      next[rank] = next[rank - 1] + bytes[rank - 1] / sizeof(PairRecord);
    for (std::size_t i = 0; i < pairs; ++i)
      for (const auto& [from, to] : {order[i], std::pair(order[i].second, order[i].first)})
        found_.pairs.push_back(unpacked(all[next[static_cast<std::size_t>(from)]++], from, to));
    return {};
  }

  Status measure_together(Deadline deadline) {
    const PairTable pairs(found_);
    auto plan = plan_together(pairs, islands_of(pairs));
    for (std::size_t i = 0; i < plan.size(); ++i) {
      Together& together = plan[i];
      tell_({fmt::format("{} {}, {} flows", name_of(together.shared), together.subject, together.flows.size()), i,
             plan.size()});
      // Flows that share something take longer than alone: two or three times, on the average.
      const double share = deadline.seconds_left() / static_cast<double>(plan.size() - i) / 3;
      const auto seconds = agreed(deadline.passed() ? 0.0 : std::min(share, kMostFlowSeconds));
      if (!seconds) return tl::unexpected(seconds.error());
      if (*seconds <= 0) break;
      const auto rate = flow_together(together, pairs, *seconds);
      if (!rate) return tl::unexpected(rate.error());
      together.rate = *rate;
      found_.together.push_back(std::move(together));
    }
    return {};
  }

  /// Bytes per second of all flows, each with as many bytes as it moves in `seconds` alone; the best of a few rounds
  /// where they are short.
  Result<double> flow_together(const Together& together, const PairTable& pairs, double seconds) {
    double fastest = 0;
    for (const RankFlow& flow : together.flows) fastest = std::max(fastest, pairs.rate(flow.from, flow.to));
    const double length = std::min(seconds, kMostFlowBytes / fastest);
    std::vector<std::size_t> bytes;
    std::vector<std::vector<std::byte>> buffers;
    for (const RankFlow& flow : together.flows) {
      const double moved = std::max(1024.0, length * pairs.rate(flow.from, flow.to));
      bytes.push_back(static_cast<std::size_t>(moved));
      buffers.emplace_back(flow.from == rank_ || flow.to == rank_ ? std::min(bytes.back(), kPieceBytes) : 0);
    }
    double best = 0;
    const int rounds = static_cast<int>(std::clamp(seconds / length, 1.0, 5.0));
    for (int round = 0; round < rounds; ++round) {
      const auto rate = one_round(together, bytes, buffers);
      if (!rate) return rate;
      best = std::max(best, *rate);
    }
    return best;
  }

  Result<double> one_round(const Together& together, const std::vector<std::size_t>& bytes,
                           std::vector<std::vector<std::byte>>& buffers) {
    if (Status met = communicator_.barrier(); !met) return tl::unexpected(met.error());
    const std::uint64_t start = ticks();
    Group group;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (Status issued = issue(together.flows[i], bytes[i], buffers[i]); !issued)
        return tl::unexpected(issued.error());
    if (Status done = group.end(); !done) return tl::unexpected(done.error());
    double slowest = microseconds_since(start) * 1e-6;
    const Status known = communicator_.all_reduce(&slowest, &slowest, 1, DataType::float64, Operator::max);
    if (!known) return tl::unexpected(known.error());
    return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0})) / slowest;
  }

  Status issue(const RankFlow& flow, std::size_t bytes, std::vector<std::byte>& buffer) {
    if (flow.from != rank_ && flow.to != rank_) return {};
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t piece = std::min(left, kPieceBytes);
      const Status issued = flow.from == rank_ ? communicator_.send(buffer.data(), piece, DataType::uint8, flow.to)
                                               : communicator_.recv(buffer.data(), piece, DataType::uint8, flow.from);
      if (!issued) return issued;
      left -= piece;
    }
    return {};
  }

  Communicator& communicator_;
  const MeasureOptions& options_;
  const std::function<void(const MeasureProgress&)>& tell_;
  int rank_;
  std::vector<std::byte> buffer_;
  Measurements found_;
};

}  // namespace

Result<Measurements> measure_job(Communicator& communicator, const MeasureOptions& options,
                                 const std::function<void(const MeasureProgress&)>& tell) {
  if (communicator.size() < 2)
    return fail(ErrorCode::invalid_argument, "one rank has nobody to send to; expected at least 2");
  if (options.sizes.size() > PairRecord::kMostSizes)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} sizes; expected at most {}", options.sizes.size(), PairRecord::kMostSizes));
  return JobMeasurement(communicator, options, tell).run();
}

}  // namespace tutti::cli
