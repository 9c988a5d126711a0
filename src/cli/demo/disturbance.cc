#include "cli/demo/disturbance.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "cli/demo/namespace_rails.hpp"
#include "cli/demo/rail_chart.hpp"
#include "cli/demo/tmpfs_folder.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"
#include "cli/support/terminal.hpp"
#include "monitor/read/snapshot.hpp"
#include "transport/fake/stream.hpp"

namespace tutti::cli {
namespace {

constexpr int kSlow = 1;          // the rail
constexpr double kShare = 0.5;    // of its rate
constexpr double kLength = 0.02;  // seconds
constexpr double kBefore = 0.02;  // of the picture
constexpr double kPicture = 0.09;
constexpr double kLearns = 2.0;  // seconds until the monitor knows what is usual
constexpr double kLook = 0.004;  // seconds between looks: a lane's last 128 chunks are kept
constexpr std::size_t kChunk = 32 << 10;
constexpr double kGigabit = 125e6;  // bytes per second
constexpr double kMost = 1.1;       // drawn, of that: chunks that were held up are acknowledged at once

void keep(Observed& observed, int lane, monitor::Cause cause, double began, double ended, const double* values,
          std::string shares) {
  if (ended < observed.from || began > observed.to + 0.01) return;
  if (observed.told && ended - began < observed.ended - observed.began) return;
  observed.told = true;
  observed.lane = lane;
  observed.cause = cause;
  observed.began = began;
  observed.ended = ended;
  observed.usual = values[0];
  observed.rate = values[1];
  observed.shares = std::move(shares);
}

/// Ranks in namespaces; what they record is read as anyone would.
class RealDisturbance {
 public:
  Result<Observed> play(Interrupts& interrupts) {
    if (folder_.path().empty()) return fail(ErrorCode::system, "no folder in /dev/shm");
    NamespaceRailsOptions options;
    options.seconds = kLearns + 1;
    options.fine = true;
    options.one_way = true;
    options.environment = {{"TUTTI_TCP_CHUNK", fmt::format("{}", kChunk)},
                           {"TUTTI_MONITOR_DIR", folder_.path()},
                           {"TUTTI_SPIN_US", "0"},  // cores are the network, too
                           {"TUTTI_YIELD_US", "0"}};
    auto opened = open_rails(options, interrupts);
    if (!opened) return tl::unexpected(opened.error());
    rails_ = std::move(*opened);
    observed_.title = rails_->title();
    observed_.lanes.resize(kRails);
    Status done = flow(kLearns);
    if (done) done = rails_->set_share(kSlow, kShare);
    observed_.from = rails_->now();
    if (done) done = flow(observed_.from + kLength);
    if (done) done = rails_->set_share(kSlow, 1);
    observed_.to = rails_->now();
    if (done) done = flow(observed_.to + 0.2);
    if (done) done = rails_->finish();
    if (!done) return tl::unexpected(done.error());
    return observed_;
  }

 private:
  Status flow(double until) {
    while (rails_->now() < until) {
      if (auto flowed = rails_->flow_until(std::min(until, rails_->now() + kLook)); !flowed) return flowed;
      look();
    }
    return {};
  }

  void look() {
    const auto snapshot = monitor::take_snapshot({folder_.path()}, {false, false, true, true});
    for (const auto& process : snapshot.processes) {
      if (process.pid != rails_->pid()) continue;
      for (const auto& lane : process.lanes) {
        std::uint64_t& next = seen_[lane.slot];
        for (const auto& chunk : lane.chunks)
          if (chunk.index >= next) add(lane.index, chunk), next = chunk.index + 1;
      }
      for (const auto& event : process.events)
        if (event.kind == monitor::EventKind::lane_recovered && event.index >= events_seen_) {
          events_seen_ = event.index + 1;
          keep(observed_, event.lane, event.cause, event.began - rails_->start(), event.at - rails_->start(),
               event.values, event.text);
        }
    }
  }

  void add(std::uint32_t lane, const monitor::ChunkView& chunk) {
    if (lane < observed_.lanes.size()) observed_.lanes[lane].push_back({chunk.done - rails_->start(), chunk.rate});
  }

  TmpfsFolder folder_;
  std::unique_ptr<NamespaceRails> rails_;
  Observed observed_;
  std::map<std::uint32_t, std::uint64_t> seen_;
  std::uint64_t events_seen_ = 0;
};

Observed simulate() {
  StreamOptions options;
  options.lanes = kRails;
  options.chunk = kChunk;
  options.network.rate = kGigabit;
  options.network.latency = 50e-6;
  options.network.jitter = 0.2;
  options.network.take = 2e-6;
  options.turn = 50e-6;
  Stream stream(options);
  Observed observed;
  observed.title = "a stream of chunks between two simulated hosts with two rails of 1 Gb/s;";
  observed.lanes.resize(kRails);
  observed.from = 1;
  observed.to = observed.from + kLength;
  const auto flow = [&](double until) {
    for (double next = stream.network().now(); next < until; next += kLook / 16) {
      stream.run_until(std::min(next, until));
      for (std::uint32_t lane = 0; lane < kRails; ++lane)
        observed.lanes[lane].push_back({stream.network().now(), stream.lane(lane).rate()});
    }
  };
  flow(observed.from);
  stream.network().set_rate(stream.sender(), kSlow, kShare * kGigabit);
  flow(observed.to);
  stream.network().set_rate(stream.sender(), kSlow, kGigabit);
  flow(observed.to + 0.2);
  for (const LaneEvent& event : stream.events())
    if (event.kind == monitor::EventKind::lane_recovered)
      keep(observed, event.lane, event.cause, event.began, event.at, event.values, event.text);
  return observed;
}

const char* words_for(monitor::Cause cause) {
  switch (cause) {
    case monitor::Cause::sender_starved:
      return "the sender had nothing to send";
    case monitor::Cause::receiver_late:
      return "the receiver was late";
    default:
      return "the path was congested";
  }
}

/// The last that was known by then.
double rate_at(const std::vector<LanePoint>& points, double seconds) {
  const auto after = std::upper_bound(points.begin(), points.end(), seconds,
                                      [](double time, const LanePoint& point) { return time < point.seconds; });
  return after == points.begin() ? 0 : (after - 1)->rate;
}

}  // namespace

std::vector<std::string> describe(const Observed& observed, bool color) {
  RailChart chart(kPicture, color);
  const double start = observed.from - kBefore;
  bool marked_from = false;
  bool marked_to = false;
  for (int column = 0; column < RailChart::kColumns; ++column) {
    const double time = start + kPicture * (column + 1) / RailChart::kColumns;
    if (time >= observed.from && !std::exchange(marked_from, true)) chart.mark(fmt::format("rail{} slow", kSlow));
    if (time >= observed.to && !std::exchange(marked_to, true)) chart.mark("as before");
    RailRates rates{};
    for (std::size_t rail = 0; rail < rates.size(); ++rail)
      rates[rail] = std::min(rate_at(observed.lanes[rail], time), kMost * kGigabit) * 8e-9;
    chart.add(rates);
  }
  std::vector<std::string> lines = chart.lines();
  lines.emplace_back();
  if (!observed.told) {
    lines.emplace_back("The monitor told nothing of it.");
    return lines;
  }
  const double early = observed.from - observed.began;
  lines.push_back(fmt::format("The monitor: lane {} dropped from {:.2f} to {:.2f} Gb/s ({:.0f} %) for {:.1f} ms,",
                              observed.lane, observed.usual * 8e-9, observed.rate * 8e-9,
                              100 * observed.rate / observed.usual, (observed.ended - observed.began) * 1e3));
  lines.push_back(fmt::format("from {:.1f} ms {} the rail was made slow: {}.", std::abs(early) * 1e3,
                              early > 0 ? "before" : "after", words_for(observed.cause)));
  lines.push_back(fmt::format("Of the time lost: {}.", observed.shares));
  return lines;
}

int play_disturbance(bool simulated) {
  Interrupts interrupts;
  Observed observed;
  bool is_real = !simulated;
  if (is_real) {
    auto played = RealDisturbance().play(interrupts);
    if (interrupts.exit_status() != 0) return interrupts.exit_status();
    if (!played && played.error().code != ErrorCode::unsupported) return report_error("demo", played.error().message);
    if (!played) fmt::print("no rails of our own here ({}); simulated instead\n", played.error().message);
    is_real = played.has_value();
    if (played) observed = *played;
  }
  if (!is_real) observed = simulate();
  fmt::print("{}\nrail{} has half its rate for {:.0f} ms; throughput of the last 8 chunks of each lane\n\n",
             observed.title, kSlow, kLength * 1e3);
  for (const std::string& line : describe(observed, wants_color(STDOUT_FILENO))) fmt::print("{}\n", line);
  std::fflush(stdout);
  return observed.told || is_real ? 0 : 1;  // real rails may be disturbed by whatever else this machine does
}

}  // namespace tutti::cli
