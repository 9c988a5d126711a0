// Links over lanes that fail in every way, on a simulated clock, by the thousand. Each run follows from its seed, which
// is printed when it fails; TUTTI_SEED=n runs that one alone, TUTTI_RUNS=n so many.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "transport/fake/conversation_test_kit.hpp"
#include "transport/fake/network.hpp"

namespace tutti {
namespace {

// Lanes are lost by the thousand here; each would be a line in the log.
[[maybe_unused]] const int kQuiet = ::setenv("TUTTI_LOG", "off", 1);

constexpr double kFaultsUntil = 3.0;  // seconds; then all heals
constexpr double kEnd = 40.0;         // seconds at which everything must long have come through
constexpr std::uint64_t kHitsWanted = 100;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRuns = 2'000;
#else
constexpr std::uint64_t kRuns = 10'000;
#endif
constexpr std::uint64_t kRunsToCount = 10'000;  // fewer may miss something rare
const LinkId kThere{77, 0, 1, 2};
const LinkId kBack{77, 1, 0, 2};

using Counts = std::map<std::string, std::uint64_t>;

// What a slot may do from one look to the next. Looks are taken after every event, and an event may do several things.
const std::vector<std::pair<LaneState, LaneState>> kMoves = {
    {LaneState::held_down, LaneState::probing}, {LaneState::probing, LaneState::healthy},
    {LaneState::probing, LaneState::held_down}, {LaneState::healthy, LaneState::suspect},
    {LaneState::suspect, LaneState::healthy},   {LaneState::suspect, LaneState::dead},
    {LaneState::healthy, LaneState::dead},      {LaneState::dead, LaneState::held_down},
    {LaneState::dead, LaneState::probing},      {LaneState::dead, LaneState::healthy},
    {LaneState::held_down, LaneState::healthy}, {LaneState::suspect, LaneState::probing},
};

/// Two processes with up to three rails between them, of which the first dials.
class World {
 public:
  World(std::uint64_t seed, Counts& counts)
      : network_(seed, faults_of(seed)),
        counts_(counts),
        lanes_(1 + static_cast<std::uint32_t>(network_.draw(3))),
        dies_(seed % 4 == 1),
        has_neighbour_(seed % 8 == 2),
        one_(make_peer(seed, 0)),
        other_(make_peer(seed, 1)),
        there_(drawing(), *one_, *other_, kThere, 40),
        back_(drawing(), *other_, *one_, kBack, seed % 2 == 0 ? 40 : 0) {
    one_->dial_lanes(lanes_, 1e9);
    pace();
    plan_fault();
  }

  void run() {
    while (!(there_.done() && back_.done()) && !testing::Test::HasFatalFailure()) {
      ASSERT_TRUE(network_.step()) << "nothing is under way; " << state();
      watch();
      for (Conversation* each : {&there_, &back_}) {
        each->act();
        each->check(dead_);
      }
      if (dead_ && over()) return;
      ASSERT_LT(network_.seconds(), kEnd) << "it does not come through; " << state();
    }
  }

 private:
  static bool corrupts(std::uint64_t seed) { return seed % 7 == 6; }

  static FakeFaults faults_of(std::uint64_t seed) {
    constexpr std::uint64_t kDelays[] = {50, 500, 5000, 20000};
    FakeFaults faults;
    faults.max_delay = kDelays[seed % 4];
    faults.replay_percent = seed % 3 == 0 ? 10 : 0;
    faults.flip_percent = corrupts(seed) ? 15 : 0;
    faults.header_flip_permille = seed % 14 == 6 ? 10 : 0;
    return faults;
  }

  Conversation::Draw drawing() {
    return [this](std::uint64_t bound) { return network_.draw(bound); };
  }

  std::shared_ptr<Peer> make_peer(std::uint64_t seed, std::size_t which) {
    PeerOptions options;
    options.limits = small_limits();
    options.only_one_lane = seed % 5 == 3;
    options.clock = [this] { return network_.seconds(); };
    options.tick_by = [this, which](double time) { plan_tick(which, time); };
    options.checksums = corrupts(seed) ? Checksums::all : static_cast<Checksums>(seed % 3);
    options.observer = [this](const char* what) {
      ++counts_[what];
      ++noted_[what];
    };
    return std::make_shared<Peer>("peer", std::move(options));
  }

  /// Only when it was promised, or is asked for: what waits for a tick that nobody planned waits for ever.
  void plan_tick(std::size_t which, double time) {
    if (time >= next_tick_[which]) return;
    next_tick_[which] = time;
    const double delay = std::max(time - network_.seconds(), 0.0);
    network_.later(static_cast<std::uint64_t>(std::ceil(delay * 1e6)), [this, which, time] {
      if (next_tick_[which] == time) tick(which);
    });
  }

  void tick(std::size_t which) {
    Peer& peer = which == 0 ? *one_ : *other_;
    std::vector<WantedLane> wanted;
    next_tick_[which] = kNever;
    plan_tick(which, peer.tick(wanted));
    for (const WantedLane& lane : wanted) {
      if (lane.relayed && !has_neighbour_)
        peer.dial_failed(lane, tutti::fail(ErrorCode::system, "no neighbour").value(), DialFailure::passing);
      else
        network_.dial(*one_, *other_, lane);
    }
  }

  /// Chunks are offered a few at a time, so that there is something under way while things fail.
  void pace() {
    allowed_ += 4;
    there_.allow(allowed_);
    back_.allow(allowed_);
    network_.later(network_.draw(400'000), [this] { pace(); });
  }

  void plan_fault() {
    network_.later(network_.draw(300'000), [this] {
      if (network_.seconds() > kFaultsUntil) return heal();
      fault(static_cast<std::uint32_t>(network_.draw(lanes_)));
      plan_fault();
    });
  }

  Peer& either() { return network_.draw(2) == 0 ? *one_ : *other_; }

  void fault(std::uint32_t lane) {
    const std::uint64_t lasts = network_.draw(2) == 0 ? network_.draw(300'000) : network_.draw(1'500'000);
    Peer& side = either();
    switch (network_.draw(8)) {
      case 0:
        ++counts_["fault: reset"];
        return network_.cut(lane);
      case 1:
        ++counts_["fault: port down"];
        network_.block(*one_, lane);
        network_.block(*other_, lane);
        network_.drop_end(side, lane, "no carrier");
        return free_later(lane, lasts, &side);
      case 2:
        ++counts_["fault: silence both ways"];
        network_.block(*one_, lane);
        network_.block(*other_, lane);
        return free_later(lane, lasts, nullptr);
      case 3:
      case 4:
        ++counts_["fault: silence one way"];
        network_.block(side, lane);
        return free_later(lane, lasts, nullptr);
      case 5:
        ++counts_["fault: both ends at once"];
        network_.drop_end(*one_, lane, "no carrier");
        return network_.drop_end(*other_, lane, "no carrier");
      case 6:
        ++counts_["fault: all lanes"];
        for (std::uint32_t each = 0; each < lanes_; ++each) network_.cut(each);
        return;
      default:
        if (!dies_ || network_.seconds() < 1) return;
        ++counts_["fault: death"];
        dead_ = true;
        return side.fail(tutti::fail(ErrorCode::rank_died, "it died").value(), false);
    }
  }

  void free_later(std::uint32_t lane, std::uint64_t after, Peer* port_of) {
    network_.later(after, [this, lane, port_of] {
      network_.unblock(*one_, lane);
      network_.unblock(*other_, lane);
      if (port_of == one_.get()) one_->port_back(lane);
    });
  }

  void heal() { network_.unblock_all(); }

  bool over() const {
    return (there_.is_over() || there_.done()) && (back_.is_over() || back_.done() || back_.taken() == 0);
  }

  /// Every bit that is flipped is noticed, and nothing else is taken for one.
  void expect_flips_found() {
    const std::uint64_t repeatedly = noted_["lane corrupts again and again"];
    ASSERT_EQ(noted_["chunk corrupted"], network_.flips());
    ASSERT_LE(noted_["sent again because it came corrupted"], network_.flips());
    ASSERT_EQ(noted_["lane given up because it corrupts"], network_.header_flips() + repeatedly);
  }

  /// Invariants, after every event.
  void watch() {
    expect_flips_found();
    for (const auto& peer : {one_, other_}) {
      std::vector<std::uint32_t> seen;
      for (const LaneEntry* entry : peer->lanes().live()) {
        const Lane* const lane = entry->live.get();
        ASSERT_EQ(std::count(seen.begin(), seen.end(), lane->index()), 0) << "two incarnations in use";
        seen.push_back(lane->index());
        ASSERT_TRUE(entry->slot.in_use());
        std::uint32_t& newest = newest_[{peer.get(), lane->index()}];
        ASSERT_GE(lane->epoch(), newest) << "an incarnation that was over is in use again";
        newest = lane->epoch();
      }
      for (const LaneEntry& each : peer->lanes().entries()) {
        const LaneState now = each.slot.state();
        const auto known = before_.emplace(std::pair(peer.get(), each.index), now);
        const LaneState before = std::exchange(known.first->second, now);
        if (before == now) continue;
        ++counts_[fmt::format("{} to {}", name_of(before), name_of(now))];
        ASSERT_NE(std::find(kMoves.begin(), kMoves.end(), std::pair(before, now)), kMoves.end())
            << name_of(before) << " to " << name_of(now);
      }
    }
  }

  std::string state() const {
    return fmt::format("there: {}; back: {}; one: {}; other: {}", there_.progress(), back_.progress(),
                       one_->describe_lanes(), other_->describe_lanes());
  }

  FakeNetwork network_;
  Counts& counts_;
  Counts noted_;
  std::uint32_t lanes_;
  bool dies_;
  bool has_neighbour_;
  bool dead_ = false;
  std::uint64_t allowed_ = 0;
  double next_tick_[2] = {kNever, kNever};  // seconds
  std::shared_ptr<Peer> one_;
  std::shared_ptr<Peer> other_;
  std::map<std::pair<const Peer*, std::uint32_t>, LaneState> before_;
  std::map<std::pair<const Peer*, std::uint32_t>, std::uint32_t> newest_;
  Conversation there_;
  Conversation back_;
};

std::uint64_t number_from(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(LaneFailures, EveryByteComesOnceAndInOrderWhateverFails) {
  Counts counts;
  const std::uint64_t only = number_from("TUTTI_SEED", 0);
  const std::uint64_t runs = only != 0 ? 1 : number_from("TUTTI_RUNS", kRuns);
  for (std::uint64_t run = 1; run <= runs && !HasFatalFailure(); ++run) {
    const std::uint64_t seed = only != 0 ? only : run;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World(seed, counts).run();
  }
  if (runs < kRunsToCount) return;
  std::string table;
  for (const auto& [what, times] : counts) {
    table += fmt::format("{:>9}  {}\n", times, what);
    EXPECT_GE(times, kHitsWanted) << what;
  }
  for (const auto& [from, to] : kMoves)
    EXPECT_GE(counts[fmt::format("{} to {}", name_of(from), name_of(to))], kHitsWanted)
        << name_of(from) << " to " << name_of(to);
  for (const char* guard :
       {"chunk corrupted", "sent again because it came corrupted", "lane corrupts again and again",
        "lane given up because it corrupts", "refused an incarnation that is over",
        "replaced an incarnation by the next", "probed", "heard again", "could not be reached", "port back"})
    EXPECT_GE(counts[guard], kHitsWanted) << guard;
  fmt::print("{} runs; how often each thing happened:\n{}", runs, table);
}

}  // namespace
}  // namespace tutti
