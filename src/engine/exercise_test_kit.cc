#include "engine/exercise_test_kit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "reduce/reference_test_kit.hpp"

namespace tutti {
namespace {

constexpr std::size_t kGuard = 64;     // bytes around every buffer
constexpr std::byte kUnwritten{0xcc};  // what buffers hold at first, where there is no input

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

}  // namespace tutti
