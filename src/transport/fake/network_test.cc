#include "transport/fake/network.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

namespace tutti {
namespace {

// Lanes are lost by the thousand here; each would be a line in the log.
[[maybe_unused]] const int kQuiet = ::setenv("TUTTI_LOG", "off", 1);

const LinkId kThere{77, 0, 1, 2};
const LinkId kBack{77, 1, 0, 2};

LinkLimits small_limits() {
  LinkLimits limits;
  limits.chunk_limit = 2000;
  limits.window = 6000;
  limits.copy_limit = 100;
  return limits;
}

std::size_t size_of_chunk(std::uint64_t number) {
  const std::uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15u;
  if (mixed % 7 == 0) return 0;
  return (mixed >> 32) % (mixed % 3 == 0 ? 100 : 2000) + 1;
}

std::byte byte_of(std::uint64_t chunk, std::size_t at) {
  return static_cast<std::byte>((chunk * 131 + at * 7 + at / 256) & 0xff);
}

OperationTag tag_of(std::uint64_t chunk) { return {static_cast<std::uint32_t>(chunk / 5), 0x5151}; }

std::shared_ptr<Peer> make_peer() {
  PeerOptions options;
  options.limits = small_limits();
  return std::make_shared<Peer>("peer", std::move(options));
}

// A sender and a receiver that offer, expect, poll and release whenever chance has it, and check every byte.
class Conversation {
 public:
  Conversation(FakeNetwork& network, Peer& from, Peer& to, const LinkId& link, std::uint64_t chunks)
      : network_(network), chunks_(chunks), send_(from.open_send(link)), recv_(to.open_recv(link)) {}

  bool done() const { return taken_ == chunks_ && send_->released() == chunks_; }
  std::string progress() const {
    return fmt::format("sent {} released {} expected {} taken {}", send_->sent(), send_->released(), expected_, taken_);
  }

  void act() {
    switch (network_.draw(4)) {
      case 0:
        return offer();
      case 1:
        return expect();
      default:
        return take();
    }
  }

  void check() {
    ASSERT_EQ(send_->error(), nullptr) << send_->error()->message;
    ASSERT_EQ(recv_->error(), nullptr) << recv_->error()->message;
    ASSERT_LE(send_->released(), send_->sent());
    // The memory of released chunks is used for something else at once.
    for (; reused_ < send_->released(); ++reused_, memory_.pop_front())
      std::fill(memory_.front().begin(), memory_.front().end(), std::byte{0xdd});
  }

 private:
  void offer() {
    const std::uint64_t chunk = send_->sent();
    if (chunk == chunks_) return;
    std::vector<std::byte> data(size_of_chunk(chunk));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = byte_of(chunk, i);
    memory_.push_back(std::move(data));
    if (!send_->send(memory_.back().data(), memory_.back().size(), tag_of(chunk))) memory_.pop_back();
  }

  void expect() {
    for (auto more = network_.draw(6); more > 0 && expected_ < chunks_; --more, ++expected_) {
      landings_.emplace_back(network_.draw(2) == 0 ? size_of_chunk(expected_) : 0);
      std::byte* landing = landings_.back().empty() ? nullptr : landings_.back().data();
      recv_->expect(landing, size_of_chunk(expected_), tag_of(expected_));
    }
  }

  void take() {
    const auto arrival = recv_->poll();
    if (!arrival) return;
    ASSERT_NE(arrival->data, nullptr);
    ASSERT_EQ(arrival->bytes, size_of_chunk(taken_));
    ASSERT_EQ(arrival->tag, tag_of(taken_));
    const std::byte* landing = landings_.front().empty() ? arrival->data : landings_.front().data();
    ASSERT_EQ(arrival->data, landing);
    for (std::size_t i = 0; i < arrival->bytes; ++i)
      ASSERT_EQ(arrival->data[i], byte_of(taken_, i)) << "chunk " << taken_;
    recv_->release();
    ++taken_;
    landings_.pop_front();
  }

  FakeNetwork& network_;
  std::uint64_t chunks_;
  std::unique_ptr<SendLink> send_;
  std::unique_ptr<RecvLink> recv_;
  std::deque<std::vector<std::byte>> memory_;    // of chunks sent and not released
  std::deque<std::vector<std::byte>> landings_;  // of chunks expected and not taken; empty: anywhere
  std::uint64_t reused_ = 0;
  std::uint64_t expected_ = 0;
  std::uint64_t taken_ = 0;
};

struct Totals {
  std::uint64_t replays = 0;
  std::uint64_t cuts = 0;
  std::uint64_t returns = 0;
};

void run_seed(std::uint64_t seed, bool cuts_lanes, Totals& totals) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  FakeFaults faults;
  faults.max_delay = seed % 5 == 0 ? 2000 : 100;
  faults.replay_percent = seed % 3 == 0 ? 20 : 0;
  FakeNetwork network(seed, faults);
  const auto one = make_peer();
  const auto other = make_peer();
  Conversation there(network, *one, *other, kThere, 30);
  Conversation back(network, *other, *one, kBack, seed % 2 == 0 ? 30 : 0);
  std::vector<std::uint32_t> epochs(1 + network.draw(4), 1);
  for (std::uint32_t lane = 0; lane < epochs.size(); ++lane) ASSERT_TRUE(network.connect(*one, *other, lane, 1));
  std::uint64_t idle = 0;
  while ((!there.done() || !back.done()) && !testing::Test::HasFatalFailure()) {
    const bool happened = network.step();
    for (Conversation* each : {&there, &back}) {
      each->act();
      each->check();
    }
    idle = happened ? 0 : idle + 1;
    ASSERT_LT(idle, 1000u) << "nothing is under way, and nothing gets on: " << there.progress()
                           << "; back: " << back.progress();
    if (!cuts_lanes || network.draw(40) != 0) continue;
    const auto living = network.living();
    if (living.size() > 1) {
      network.cut(living[network.draw(living.size())]);
      ++totals.cuts;
    }
    const auto lane = static_cast<std::uint32_t>(network.draw(epochs.size()));
    if (std::find(living.begin(), living.end(), lane) == living.end() &&
        network.connect(*one, *other, lane, ++epochs[lane]))
      ++totals.returns;
  }
  totals.replays += network.replays();
}

TEST(FakeLanes, BytesArriveOnceAndInOrderWhateverLanesDo) {
  Totals totals;
  for (std::uint64_t seed = 1; seed <= 1500 && !HasFatalFailure(); ++seed) run_seed(seed, false, totals);
  EXPECT_GT(totals.replays, 500u);
}

TEST(FakeLanes, NothingIsLostOrAppliedTwiceWhenLanesBreakAndReturn) {
  Totals totals;
  for (std::uint64_t seed = 1; seed <= 1500 && !HasFatalFailure(); ++seed) run_seed(seed, true, totals);
  EXPECT_GT(totals.cuts, 500u);
  EXPECT_GT(totals.returns, 100u);
  EXPECT_GT(totals.replays, 500u);
}

TEST(FakeLanes, TheSameSeedTakesTheSameCourse) {
  const auto course = [](std::uint64_t seed) {
    FakeNetwork network(seed, {});
    const auto one = make_peer();
    const auto other = make_peer();
    Conversation conversation(network, *one, *other, kThere, 20);
    network.connect(*one, *other, 0, 1);
    while (!conversation.done()) {
      network.step();
      conversation.act();
    }
    return network.now();
  };
  EXPECT_EQ(course(5), course(5));
  EXPECT_NE(course(5), course(6));
}

TEST(FakeLanes, WithoutALaneLinksWait) {
  FakeNetwork network(1, {});
  const auto one = make_peer();
  const auto other = make_peer();
  Conversation conversation(network, *one, *other, kThere, 20);
  network.connect(*one, *other, 0, 1);
  network.connect(*one, *other, 1, 1);
  for (int step = 0; step < 20; ++step) {
    network.step();
    conversation.act();
  }
  network.cut(0);
  network.cut(1);
  for (int step = 0; step < 500; ++step) {
    network.step();
    conversation.act();
    conversation.check();
  }
  ASSERT_FALSE(conversation.done());
  ASSERT_TRUE(network.connect(*one, *other, 1, 2));
  for (int step = 0; step < 5000 && !conversation.done(); ++step) {
    network.step();
    conversation.act();
    conversation.check();
  }
  EXPECT_TRUE(conversation.done()) << conversation.progress();
}

}  // namespace
}  // namespace tutti
