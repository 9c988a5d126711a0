#include "engine/fake_ranks_test_kit.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

constexpr std::size_t kGuard = 64;           // bytes around every buffer
constexpr std::byte kUnwritten{0xcc};        // what buffers hold at first, where there is no input
constexpr std::byte kReleasedStaging{0xdd};  // what the staging memory of a link holds when it was given back

}  // namespace

bool FakeLink::take(const std::byte* data, std::size_t bytes, OperationTag tag, bool copy) {
  if (send_error || chunks_.size() - credited_ >= limits_.slots) return false;
  if (bytes > limits_.chunk_limit) notes_.faults.emplace_back("a chunk is larger than its link allows");
  chunks_.push_back({data, {data, data + bytes}, false_bytes.value_or(bytes), false_tag.value_or(tag), copy});
  sent_copies_ += copy ? 1 : 0;
  ++notes_.moves;
  release_memory();
  if (is_prompt) settle();
  return true;
}

void FakeLink::Receiver::expect(std::byte* landing, std::size_t bytes, OperationTag tag) {
  link_.expected_.push_back({landing, bytes, tag});
  if (link_.is_prompt) link_.settle();
}

std::optional<Arrival> FakeLink::poll() {
  if (recv_error || expected_.empty() || taken_ == arrived_) return std::nullopt;
  const Chunk& chunk = chunks_[taken_];
  const Expected& expected = expected_.front();
  if (chunk.tag != expected.tag || chunk.bytes != expected.bytes) return Arrival{nullptr, chunk.bytes, chunk.tag};
  if (chunk.has_landed) return Arrival{expected.landing, chunk.bytes, chunk.tag};
  if (!is_fetched_) {
    staging_.assign(source_of(chunk), source_of(chunk) + chunk.bytes);
    staging_.push_back(kReleasedStaging);  // even a chunk of no bytes lies somewhere
    is_fetched_ = true;
  }
  return Arrival{staging_.data(), chunk.bytes, chunk.tag};
}

void FakeLink::release() {
  std::fill(staging_.begin(), staging_.end(), kReleasedStaging);
  is_fetched_ = false;
  expected_.pop_front();
  ++taken_;
  ++notes_.moves;
  if (is_prompt) settle();
}

void FakeLink::deliver(std::uint64_t chunks) {
  arrived_ = std::min<std::uint64_t>(arrived_ + chunks, chunks_.size());
  settle();
}

bool FakeLink::progress() {
  const auto before = std::tuple(arrived_, credited_, released_);
  settle();
  return before != std::tuple(arrived_, credited_, released_);
}

void FakeLink::settle() {
  if (!holds_chunks) arrived_ = chunks_.size();
  credited_ = taken_;
  if (!holds_memory) acknowledged_ = taken_;
  if (lands) land();
  release_memory();
}

void FakeLink::land() {
  for (std::size_t i = 0; i < expected_.size() && taken_ + i < arrived_; ++i) {
    Chunk& chunk = chunks_[taken_ + i];
    const Expected& expected = expected_[i];
    const bool is_right = chunk.tag == expected.tag && chunk.bytes == expected.bytes;
    if (!is_right || chunk.has_landed || expected.landing == nullptr || (i == 0 && is_fetched_)) continue;
    if (chunk.bytes > 0) std::memcpy(expected.landing, source_of(chunk), chunk.bytes);
    chunk.has_landed = true;
  }
}

/// Releases the memory of the first chunks: those that were taken, or copied.
void FakeLink::release_memory() {
  for (; released_ < chunks_.size(); ++released_) {
    const Chunk& chunk = chunks_[released_];
    if (!chunk.is_copied && released_ >= acknowledged_) return;
    if (!chunk.is_copied && !std::equal(chunk.when_sent.begin(), chunk.when_sent.end(), chunk.data))
      notes_.faults.emplace_back("memory that was sent was changed before it was released");
  }
}

FakeHost::FakeHost(int ranks_here, const FakeLimits& limits_here)
    : limits(limits_here), ranks(static_cast<std::size_t>(ranks_here)) {
  for (Rank& rank : ranks)
    for (std::vector<std::byte>& half : rank.stage) half.assign(limits.stage_bytes + kGuard, kUnwritten);
}

bool FakeHost::has_overrun() const {
  for (const Rank& rank : ranks)
    for (const std::vector<std::byte>& half : rank.stage)
      if (std::count(half.end() - kGuard, half.end(), kUnwritten) != kGuard) return true;
  return false;
}

const FakeHost::Entry& FakePeers::entry_of(int peer) const {
  return host_.ranks[static_cast<std::size_t>(peer)].entries[entry_];
}

bool FakePeers::enter(OperationTag tag, std::span<std::byte> input, std::span<std::byte> output) {
  host_.ranks[static_cast<std::size_t>(rank_)].entries[entry_] = {
      tag.number + 1, tag.signature, {input, output}, is_mapped};
  ++notes_.moves;
  return is_mapped;
}

OneSidedPeers::Entered FakePeers::has_entered(int peer, OperationTag tag) const {
  const FakeHost::Entry& entry = entry_of(peer);
  if (entry.number != tag.number + 1) return Entered::not_yet;
  return entry.signature == tag.signature ? Entered::same_call : Entered::other_call;
}

Result<std::array<OneSidedPeers::Place, 2>> FakePeers::begin_use(int peer) {
  if (begin_use_error) return tl::unexpected(*begin_use_error);
  const FakeHost::Entry& entry = entry_of(peer);
  if (entry.number != entry_of(rank_).number) note("a peer's buffers were used before it entered");
  std::array<Place, 2> places;
  for (std::size_t side = 0; side < 2; ++side) {
    places[side].mapped = entry.is_mapped ? entry.sides[side].data() : nullptr;
    places[side].address = reinterpret_cast<std::uint64_t>(entry.sides[side].data());
  }
  ++uses_;
  return places;
}

void FakePeers::end_use(int) { --uses_; }

Status FakePeers::pull(int, std::byte* target, std::uint64_t address, std::size_t bytes) {
  if (pull_error) return tl::unexpected(*pull_error);
  ++pulls_;
  std::memcpy(target, reinterpret_cast<const void*>(address), bytes);
  return {};
}

void FakePeers::leave_operation() {
  ++operations_left_;
  entry_ = 1 - entry_;
}

std::byte* FakeStage::of(int peer) const {
  if (!is_in_turn_) note("a stage was used outside of a turn");
  return host_.ranks[static_cast<std::size_t>(peer)].stage[half_].data();
}

void FakeStage::begin_turn() {
  if (is_in_turn_) note("a turn began within another");
  is_in_turn_ = true;
  ++turns_;
}

void FakeStage::end_turn(bool change_halves) {
  if (!is_in_turn_) note("a turn ended that had not begun");
  is_in_turn_ = false;
  if (change_halves) half_ = 1 - half_;
}

void FakeStage::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (!is_in_turn_) note("something was staged outside of a turn");
  ++copies_;
  std::memcpy(to, from, bytes);
}

void FakePeers::signal(int peer, int channel) {
  ++host_.ranks[static_cast<std::size_t>(peer)].signals[{rank_, channel}];
  ++notes_.moves;
}

bool FakePeers::take_signal(int peer, int channel) {
  std::uint64_t& waiting = host_.ranks[static_cast<std::size_t>(rank_)].signals[{peer, channel}];
  if (waiting == 0) return false;
  --waiting;
  return true;
}

bool FakePeers::begin_push() {
  if (is_pushing_) note("a push began within another");
  if (refuses_push) return false;
  is_pushing_ = true;
  ++pushes_;
  return true;
}

void FakePeers::end_push() {
  if (!is_pushing_) note("a push ended that had not begun");
  is_pushing_ = false;
}

FakeRanks::FakeRanks(int ranks, const FakeLimits& limits, std::uint64_t seed)
    : limits_(limits), host_(ranks, limits), seed_(seed), random_(seed) {
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
}

FakeLink& FakeRanks::link(int from, int to, int channel) {
  std::unique_ptr<FakeLink>& link = links_[{from, to, channel}];
  if (link != nullptr) return *link;
  link = std::make_unique<FakeLink>(limits_, notes_);
  link->is_prompt = seed_ == 0 || random_() % 2 == 0;
  link->lands = seed_ != 0 && random_() % 2 == 0;
  every_link_.push_back(link.get());
  return *link;
}

Result<SendLink*> FakeRanks::LinksOf::send_link(int rank, int channel) {
  if (ranks_.send_refusal) return tl::unexpected(*ranks_.send_refusal);
  return &ranks_.link(rank_, rank, channel).send_end();
}

Result<RecvLink*> FakeRanks::LinksOf::recv_link(int rank, int channel) {
  if (ranks_.recv_refusal) return tl::unexpected(*ranks_.recv_refusal);
  return &ranks_.link(rank, rank_, channel).recv_end();
}

void FakeRanks::compile_for_all(const Program& program, std::size_t which) {
  for (int rank = 0; rank < size(); ++rank) {
    auto compiled = compile(program, rank, exercises_[0]->call(rank).in_place, links(rank));
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    at(rank).plans[which] = std::move(*compiled);
    at(rank).is_bound = false;
    at(rank).started = 0;
  }
}

void FakeRanks::load(const Program& program, const Exercise& exercise, std::size_t tile) {
  exercises_ = {&exercise};
  tile_[0] = tile;
  compile_for_all(program, 0);
  for (const auto& rank : ranks_) rank->plans[1] = nullptr;
}

void FakeRanks::load_mapped(const Program& program, std::size_t tile) {
  tile_[1] = tile;
  compile_for_all(program, 1);
}

Status FakeRanks::start(int rank, std::optional<OperationTag> tag) {
  Rank& starting = at(rank);
  const Call& call = exercises_[starting.started++]->call(rank);
  const OperationTag own{starting.number++, signature_of(call)};
  if (starting.is_bound) {
    starting.execution.restart(tag.value_or(own), call.send, call.recv);
    return {};
  }
  Status started = starting.execution.start({starting.plans[0].get(), tile_[0]}, {starting.plans[1].get(), tile_[1]},
                                            call, tag.value_or(own), &starting.peers, &starting.stop);
  starting.is_bound = started.has_value();
  return started;
}

void FakeRanks::start_all() {
  for (int rank = 0; rank < size(); ++rank) {
    if (at(rank).started > 0) continue;
    EXPECT_TRUE(start(rank).has_value()) << "rank " << rank;
  }
}

Outcome FakeRanks::run() {
  while (is_anyone_running())
    if (!run_round(false) && !run_round(true)) break;
  bool all_done = true;
  for (const auto& rank : ranks_) {
    if (rank->execution.state() == Execution::State::failed) return Outcome::failed;
    all_done = all_done && rank->execution.state() == Execution::State::done;
  }
  return all_done ? Outcome::done : Outcome::stuck;
}

/// Returns whether a rank could enter another operation now.
bool FakeRanks::has_next(const Rank& rank) const {
  return rank.started < exercises_.size() && (rank.started == 0 || rank.execution.state() == Execution::State::done);
}

bool FakeRanks::is_anyone_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
    return has_next(*rank) || rank->execution.state() == Execution::State::running;
  });
}

/// Lets ranks and links act once each, in random order; some of them not, unless `all_act`. Returns whether anything
/// moved.
bool FakeRanks::run_round(bool all_act) {
  const std::uint64_t moves_before = notes_.moves;
  std::vector<std::size_t> actors(ranks_.size() + every_link_.size());
  std::iota(actors.begin(), actors.end(), std::size_t{0});
  std::shuffle(actors.begin(), actors.end(), random_);
  bool moved = false;
  for (const std::size_t actor : actors)
    if ((all_act || random_() % 4 != 0) && act(actor)) moved = true;
  return moved || notes_.moves != moves_before;
}

bool FakeRanks::act(std::size_t actor) {
  if (actor >= ranks_.size()) return every_link_[actor - ranks_.size()]->progress();
  const auto rank = static_cast<int>(actor);
  if (!has_next(at(rank))) return advance(rank);
  (void)start(rank);  // its state tells if it failed
  return true;
}

std::string FakeRanks::fault() const {
  if (!notes_.faults.empty()) return notes_.faults.front();
  if (host_.has_overrun()) return "something was written behind the end of a stage";
  for (const auto& rank : ranks_)
    if (rank->execution.state() == Execution::State::done && !rank->peers.is_quiet())
      return "a rank is done and has not ended a use, a turn or a push";
  return {};
}

bool runs_right(const Program& program, const Task& task, const FakeLimits& limits, std::uint64_t seed,
                std::size_t tile) {
  Exercise exercise(task);
  FakeRanks ranks(task.ranks, limits, seed);
  ranks.load(program, exercise, tile);
  const Outcome outcome = ranks.run();
  const std::string mistakes = exercise.mistakes();
  EXPECT_TRUE(outcome == Outcome::done && mistakes.empty() && ranks.fault().empty())
      << program.name << " " << name_of(task.collective) << " of " << task.count << " elements on " << task.ranks
      << " ranks, root " << task.root << (task.in_place ? ", in place" : "") << ", seed " << seed << ": " << outcome
      << "\n"
      << mistakes << ranks.fault();
  return outcome == Outcome::done && mistakes.empty() && ranks.fault().empty();
}

}  // namespace tutti
