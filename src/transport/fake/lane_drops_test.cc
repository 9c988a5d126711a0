#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "transport/fake/stream.hpp"

namespace tutti {
namespace {

using monitor::Cause;
using monitor::EventKind;

constexpr double kRate = 50e9;  // bytes per second: 400 Gb/s

StreamOptions fast_lane(std::uint64_t seed) {
  StreamOptions options;
  options.network.rate = kRate;
  options.network.jitter = 0.2;
  options.network.seed = seed;
  options.monitor.stall = 20e-6;
  options.monitor.gap = 20e-6;
  return options;
}

std::vector<LaneEvent> of_kind(const Stream& stream, EventKind kind) {
  std::vector<LaneEvent> found;
  for (const LaneEvent& each : stream.events())
    if (each.kind == kind) found.push_back(each);
  return found;
}

std::string describe(const Stream& stream) {
  std::string text;
  for (const LaneEvent& each : stream.events())
    text += fmt::format("kind {} cause {} lane {} at {:.1f} us, began {:.1f} us: {:.4g} {:.4g} {:.4g}\n",
                        static_cast<int>(each.kind), static_cast<int>(each.cause), each.lane, each.at * 1e6,
                        each.began * 1e6, each.values[0], each.values[1], each.values[2]);
  return text;
}

// The bar: a rate halved for 200 us, at 400 Gb/s with chunks of 64 KB, is seen, placed within 20 us and its depth known
// within 10 %.
TEST(LaneDrops, ATransientOf200MicrosecondsIsPlacedAndMeasured) {
  double worst_place = 0;
  double worst_depth = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Stream stream(fast_lane(seed));
    const double cut = 1e-3 + stream.network().draw() * 20e-6;
    stream.run_until(cut);
    stream.network().set_rate(stream.sender(), 0, kRate / 2);
    stream.run_until(cut + 200e-6);
    stream.network().set_rate(stream.sender(), 0, kRate);
    stream.run_until(cut + 600e-6);
    const auto drops = of_kind(stream, EventKind::lane_dropped);
    const auto recoveries = of_kind(stream, EventKind::lane_recovered);
    ASSERT_EQ(drops.size(), 1u) << describe(stream);
    ASSERT_EQ(recoveries.size(), 1u) << describe(stream);
    const LaneEvent& told = recoveries.front();
    const double place = std::max(std::abs(told.began - cut), std::abs(told.at - (cut + 200e-6)));
    const double depth = std::abs(told.values[1] / told.values[0] / 0.5 - 1);
    worst_place = std::max(worst_place, place);
    worst_depth = std::max(worst_depth, depth);
    EXPECT_LT(place, 20e-6) << describe(stream);
    EXPECT_LT(depth, 0.1) << describe(stream);
    EXPECT_EQ(told.cause, Cause::path_congested) << describe(stream);
    EXPECT_EQ(drops.front().cause, Cause::path_congested) << describe(stream);
  }
  fmt::print("worst of 200: placed within {:.1f} us, depth within {:.1f} %\n", worst_place * 1e6, worst_depth * 100);
}

// What is done to a stream, and what it should be called.
struct Injection {
  const char* name;
  Cause cause;
  std::function<void(Stream&, double severity)> begin;
  std::function<void(Stream&)> end;
};

/// Seconds that a chunk takes on all lanes together.
double chunk_seconds(Stream& stream, const StreamOptions& options) {
  return static_cast<double>(chunk_cost(options.chunk)) / stream.network().rate() / options.lanes;
}

std::vector<Injection> injections(const StreamOptions& options) {
  const auto all_rates = [lanes = options.lanes](Stream& stream, double rate) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) stream.network().set_rate(stream.sender(), lane, rate);
  };
  return {
      {"a lane is slower", Cause::path_congested,
       [](Stream& stream, double severity) {
         stream.network().set_rate(stream.sender(), 0, stream.network().rate() / severity);
       },
       [](Stream& stream) { stream.network().set_rate(stream.sender(), 0, stream.network().rate()); }},
      {"all lanes are slower", Cause::path_congested,
       [all_rates](Stream& stream, double severity) { all_rates(stream, stream.network().rate() / severity); },
       [all_rates](Stream& stream) { all_rates(stream, stream.network().rate()); }},
      {"the receiver does not read", Cause::receiver_late,
       [](Stream& stream, double) { stream.network().stop(stream.receiver()); },
       [](Stream& stream) { stream.network().set_speed(stream.receiver(), 1); }},
      {"the receiver reads slowly", Cause::receiver_late,
       [options](Stream& stream, double severity) {
         const double frame = chunk_seconds(stream, options) * options.lanes * severity;
         stream.network().set_speed(stream.receiver(), frame / options.network.take);
       },
       [](Stream& stream) { stream.network().set_speed(stream.receiver(), 1); }},
      {"the receiver takes nothing", Cause::receiver_late, [](Stream& stream, double) { stream.take_nothing(true); },
       [](Stream& stream) { stream.take_nothing(false); }},
      {"the receiver takes slowly", Cause::receiver_late,
       [options](Stream& stream, double severity) { stream.take_every(chunk_seconds(stream, options) * severity); },
       [](Stream& stream) { stream.take_every(0); }},
      {"the producer is slow", Cause::sender_starved,
       [options](Stream& stream, double severity) { stream.produce_every(chunk_seconds(stream, options) * severity); },
       [](Stream& stream) { stream.produce_every(0); }},
  };
}

StreamOptions drawn(std::mt19937_64& random) {
  const auto among = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  StreamOptions options;
  options.lanes = 1 + random() % 2;
  options.chunk = std::size_t{64 << 10} << random() % 3;
  options.network.rate = random() % 2 == 0 ? 50e9 : 3e9;
  options.network.jitter = among(0, 0.3);
  options.network.latency = among(1e-6, 10e-6);
  options.network.seed = random();
  const double chunk = static_cast<double>(options.chunk) / options.network.rate;
  if (random() % 2 == 0) {
    options.chunks_per_operation = 50 + random() % 400;
    options.between_operations = chunk * among(1, 30);
  }
  options.monitor.stall = 32 * chunk;
  options.monitor.gap = 32 * chunk;
  return options;
}

// A drop that was told of the time of the injection, by how much was lost: the one that counts.
const LaneEvent* told_between(const Stream& stream, double from, double to) {
  const LaneEvent* found = nullptr;
  const auto lost = [](const LaneEvent& event) { return event.values[2] * (1 - event.values[1] / event.values[0]); };
  for (const LaneEvent& each : stream.events()) {
    if (each.kind != EventKind::lane_recovered || each.at < from || each.began > to) continue;
    if (found == nullptr || lost(each) > lost(*found)) found = &each;
  }
  return found;
}

TEST(LaneDrops, AreLabelledByTheirCause) {
  constexpr int kCases = 420;
  std::map<std::string, std::map<std::string, int>> table;
  int right = 0;
  std::mt19937_64 random(5);
  for (int number = 0; number < kCases; ++number) {
    const StreamOptions options = drawn(random);
    const auto all = injections(options);
    const Injection& injected = all[static_cast<std::size_t>(number) % all.size()];
    const double severity = std::uniform_real_distribution<double>(1 / 0.6, 1 / 0.2)(random);
    Stream stream(options);
    const double chunk = chunk_seconds(stream, options);
    const double begin = chunk * static_cast<double>(1500 + random() % 500);
    const double end = begin + chunk * static_cast<double>(200 + random() % 400);
    stream.run_until(begin);
    const std::size_t before = stream.events().size();
    injected.begin(stream, severity);
    stream.run_until(end);
    injected.end(stream);
    stream.run_until(end + 1500 * chunk);
    const LaneEvent* told = told_between(stream, begin, end + 100 * chunk);
    const char* label = told == nullptr                        ? "nothing"
                        : told->cause == Cause::path_congested ? "path congested"
                        : told->cause == Cause::receiver_late  ? "receiver late"
                                                               : "sender starved";
    ++table[injected.name][label];
    const bool is_right = told != nullptr && told->cause == injected.cause && before == 0;
    right += is_right ? 1 : 0;
    if (!is_right)
      fmt::print("case {}: {} by {:.2f} from {:.0f} to {:.0f} us, {} lanes, chunks of {}, {:g} GB/s, {} a time: {}\n{}",
                 number, injected.name, severity, begin * 1e6, end * 1e6, options.lanes, options.chunk,
                 options.network.rate / 1e9, options.chunks_per_operation, label, describe(stream));
  }
  for (const auto& [injected, labels] : table)
    for (const auto& [label, count] : labels) fmt::print("{:28} {:16} {:4}\n", injected, label, count);
  fmt::print("{} of {} right\n", right, kCases);
  EXPECT_GE(right, kCases * 0.99);
}

TEST(LaneDrops, AHealthyLaneHasNone) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 150; ++run) {
    StreamOptions options = drawn(random);
    options.network.hiccups = 0.001;
    Stream stream(options);
    stream.run_until(4000 * chunk_seconds(stream, options));
    EXPECT_TRUE(stream.events().empty()) << "run " << run << ", " << options.lanes << " lanes, chunks of "
                                         << options.chunk << ", " << options.network.rate << " B/s, "
                                         << options.chunks_per_operation << " a time, pauses "
                                         << options.between_operations << " jitter " << options.network.jitter << "\n"
                                         << describe(stream);
  }
}

TEST(LaneDrops, LanesOfDifferentSpeedAreToldOnceUntilTheyAreEven) {
  StreamOptions options = fast_lane(1);
  options.lanes = 2;
  Stream stream(options);
  stream.network().set_rate(stream.sender(), 1, kRate / 2);
  stream.run_until(3e-3);
  const auto told = of_kind(stream, EventKind::lanes_uneven);
  ASSERT_EQ(told.size(), 1u) << describe(stream);
  EXPECT_EQ(told[0].lane, 1);
  EXPECT_NEAR(told[0].values[0] / told[0].values[1], 0.5, 0.1);
  stream.network().set_rate(stream.sender(), 1, kRate);
  stream.run_until(6e-3);
  stream.network().set_rate(stream.sender(), 1, kRate / 2);
  stream.run_until(9e-3);
  EXPECT_EQ(of_kind(stream, EventKind::lanes_uneven).size(), 2u) << describe(stream);
}

}  // namespace
}  // namespace tutti
