#include "engine/fake_ranks_test_kit.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "reduce/reference_test_kit.hpp"

namespace tutti {
namespace {

constexpr std::size_t kGuard = 64;           // bytes around every buffer
constexpr std::byte kUnwritten{0xcc};        // what buffers hold at first, where there is no input
constexpr std::byte kReleasedStaging{0xdd};  // what the staging memory of a link holds when it was given back

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

/// Composes two functions x -> a * x + b; a lies in the high half of an element, b in the low one.
std::uint64_t compose(std::uint64_t left, std::uint64_t right) {
  const std::uint64_t a = (left >> 32) * (right >> 32);
  const std::uint64_t b = (left >> 32) * (right & 0xffffffff) + left;
  return a << 32 | (b & 0xffffffff);
}

void compose_all(const void* left, const void* right, void* result, std::size_t count, DataType, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t operands[2];
    std::memcpy(&operands[0], static_cast<const std::byte*>(left) + 8 * i, 8);
    std::memcpy(&operands[1], static_cast<const std::byte*>(right) + 8 * i, 8);
    const std::uint64_t composed = compose(operands[0], operands[1]);
    std::memcpy(static_cast<std::byte*>(result) + 8 * i, &composed, 8);
  }
}

/// Returns the bits of a small number as an element of that type.
std::uint64_t bits_of(DataType type, int number) {
  if (type == DataType::float32) return std::bit_cast<std::uint32_t>(static_cast<float>(number));
  if (type == DataType::float64) return std::bit_cast<std::uint64_t>(static_cast<double>(number));
  return static_cast<std::uint64_t>(number) & ~std::uint64_t{0} >> (64 - 8 * size_of(type));
}

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

Reduction ordered_reduction() { return Reduction::user(compose_all); }

Exercise::Exercise(Task task) : task_(std::move(task)), ranks_(static_cast<std::size_t>(task_.ranks)) {
  for (int rank = 0; rank < task_.ranks; ++rank) {
    Rank& made = ranks_[static_cast<std::size_t>(rank)];
    lay_out(rank, Buffer::input);
    lay_out(rank, Buffer::output);
    allocate(rank);
    fill(made.sides[0], made.memory, [&](int block, std::size_t i) { return number_of(rank, block, i); });
    make_call(rank);
    for (int i : {0, 1}) made.at_first[i] = made.expected[i] = made.memory[i];
    fill(made.sides[1], made.expected, [&](int block, std::size_t i) { return result_of(rank, block, i); });
  }
}

bool Exercise::holds_all_blocks(Buffer buffer) const {
  switch (task_.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return buffer == Buffer::output;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return buffer == Buffer::input;
    default:
      return task_.collective == Collective::all_to_all;
  }
}

bool Exercise::has(int rank, Buffer buffer) const {
  switch (task_.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return rank == task_.root || buffer == Buffer::output;
    case Collective::reduce:
    case Collective::gather:
      return rank == task_.root || buffer == Buffer::input;
    case Collective::point_to_point:
      return rank == (buffer == Buffer::input ? 0 : 1);
    default:
      return task_.collective != Collective::barrier;
  }
}

bool Exercise::is_in_place(int rank) const {
  return task_.in_place && has(rank, Buffer::input) && has(rank, Buffer::output);
}

std::size_t Exercise::count_of(int rank, Buffer buffer, int block) const {
  if (task_.counts.empty()) return task_.count;
  if (task_.collective == Collective::all_to_all) {
    const auto from = static_cast<std::size_t>(buffer == Buffer::input ? rank : block);
    const auto to = static_cast<std::size_t>(buffer == Buffer::input ? block : rank);
    return task_.counts[from * static_cast<std::size_t>(task_.ranks) + to];
  }
  return task_.counts[static_cast<std::size_t>(holds_all_blocks(buffer) ? block : rank)];
}

void Exercise::lay_out(int rank, Buffer buffer) {
  Side& side = ranks_[static_cast<std::size_t>(rank)].sides[static_cast<int>(buffer)];
  const bool holds_all = holds_all_blocks(buffer);
  const bool is_told = !task_.counts.empty();
  const bool knows_all = !has_root(task_.collective) || rank == task_.root;
  for (int block = 0; is_told && block < task_.ranks; ++block) {
    const bool is_known = knows_all || block == rank;
    const std::size_t count = holds_all ? count_of(rank, buffer, block) : task_.counts[static_cast<std::size_t>(block)];
    side.told_counts.push_back(is_known ? count : 0);
  }
  if (!has(rank, buffer)) return;
  for (int block = 0; block < (holds_all ? task_.ranks : 1); ++block) {
    side.counts.push_back(count_of(rank, buffer, block));
    side.positions.push_back(side.elements);
    side.elements += side.counts.back() + (is_told && holds_all ? task_.gap : 0);
  }
  if (is_told && holds_all && task_.gap > 0) side.told_offsets = side.positions;
}

/// Makes one memory for each buffer; in place, one for both.
void Exercise::allocate(int rank) {
  Rank& made = ranks_[static_cast<std::size_t>(rank)];
  const std::size_t element = size_of(task_.type);
  const bool in_place = is_in_place(rank);
  const int outer = in_place && holds_all_blocks(Buffer::output) ? 1 : 0;
  for (int i : {0, 1}) {
    if (!has(rank, static_cast<Buffer>(i))) continue;
    Side& side = made.sides[i];
    const bool is_inner = in_place && i != outer;
    side.memory = in_place ? outer : i;
    side.begin = kGuard;
    if (!is_inner) made.memory[i].assign(side.elements * element + 2 * kGuard, kUnwritten);
    const bool is_own_block = is_inner && holds_all_blocks(static_cast<Buffer>(outer)) && side.counts.size() == 1;
    if (is_own_block) side.begin += made.sides[outer].positions[static_cast<std::size_t>(rank)] * element;
  }
}

void Exercise::make_call(int rank) {
  Rank& made = ranks_[static_cast<std::size_t>(rank)];
  const auto base_of = [&](int side) {
    return has(rank, static_cast<Buffer>(side)) ? made.memory[made.sides[side].memory].data() + made.sides[side].begin
                                                : nullptr;
  };
  made.call.collective = task_.collective;
  made.call.send = base_of(0);
  made.call.recv = base_of(1);
  made.call.count = task_.count;
  made.call.type = task_.type;
  made.call.reduction = task_.reduction;
  made.call.root = task_.root;
  made.call.in_place = is_in_place(rank);
  made.call.uneven = !task_.counts.empty();
  made.call.send_counts = made.sides[0].told_counts;
  made.call.send_offsets = made.sides[0].told_offsets;
  made.call.recv_counts = made.sides[1].told_counts;
  made.call.recv_offsets = made.sides[1].told_offsets;
}

/// Returns an element of a block of a rank's input.
std::uint64_t Exercise::number_of(int rank, int block, std::size_t index) const {
  const std::uint64_t place = static_cast<std::uint64_t>(rank) << 48 | static_cast<std::uint64_t>(block) << 40 | index;
  const std::uint64_t drawn = mix(mix(task_.seed) ^ place);
  if (task_.reduction.op == Operator::user) return drawn;
  return bits_of(task_.type, static_cast<int>(drawn % 201) - 100);
}

/// Returns what an element of a block of a rank's output must be.
std::uint64_t Exercise::result_of(int rank, int block, std::size_t index) const {
  switch (task_.collective) {
    case Collective::broadcast:
    case Collective::point_to_point:
      return number_of(task_.root, 0, index);
    case Collective::all_gather:
    case Collective::gather:
      return number_of(block, 0, index);
    case Collective::all_to_all:
      return number_of(block, rank, index);
    case Collective::scatter:
      return number_of(task_.root, rank, index);
    default:
      break;
  }
  const int reduced = task_.collective == Collective::reduce_scatter ? rank : 0;
  std::vector<std::uint64_t> operands;
  for (int each = 0; each < task_.ranks; ++each) operands.push_back(number_of(each, reduced, index));
  const Operator op = task_.reduction.op;
  if (op == Operator::user) return std::accumulate(operands.begin() + 1, operands.end(), operands[0], compose);
  const int divisor = op == Operator::average ? task_.ranks : 1;
  return reference::reduce(task_.type, op, operands, 1.0 / divisor, divisor);
}

template <typename NumberOf>
void Exercise::fill(const Side& side, std::vector<std::byte>* memory, NumberOf number) {
  const std::size_t element = size_of(task_.type);
  for (std::size_t block = 0; block < side.counts.size(); ++block)
    for (std::size_t i = 0; i < side.counts[block]; ++i) {
      const std::uint64_t bits = number(static_cast<int>(block), i);
      std::memcpy(memory[side.memory].data() + side.begin + (side.positions[block] + i) * element, &bits, element);
    }
}

std::string Exercise::mistakes_of(int rank) const {
  const Rank& made = ranks_[static_cast<std::size_t>(rank)];
  for (int i : {0, 1}) {
    const auto [is, must] = std::mismatch(made.memory[i].begin(), made.memory[i].end(), made.expected[i].begin());
    if (is == made.memory[i].end()) continue;
    return fmt::format("rank {}: byte {} of the memory of its {} is {:#x}, expected {:#x}\n", rank,
                       is - made.memory[i].begin() - static_cast<std::ptrdiff_t>(kGuard), i == 0 ? "input" : "output",
                       std::to_integer<int>(*is), std::to_integer<int>(*must));
  }
  return {};
}

std::string Exercise::mistakes() const {
  std::string all;
  for (int rank = 0; rank < task_.ranks; ++rank) all += mistakes_of(rank);
  return all;
}

bool Exercise::is_untouched(int rank) const {
  const Rank& made = ranks_[static_cast<std::size_t>(rank)];
  return made.memory[0] == made.at_first[0] && made.memory[1] == made.at_first[1];
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
