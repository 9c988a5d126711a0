#include "shape.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "random.hpp"

namespace tutti::integration {
namespace {

using Element = std::function<Bits(std::size_t)>;

std::shared_ptr<const Pattern> make_pattern(DataType type, std::size_t count, const Element& element) {
  auto pattern = std::make_shared<Pattern>();
  const std::size_t period = std::min(count, Pattern::kPeriod);
  pattern->bytes.resize(period * size_of(type));
  for (std::size_t i = 0; i < period; ++i) store(type, element(i), pattern->bytes.data() + i * size_of(type));
  return pattern;
}

/// Where blocks of these counts lie: one after another, or in any order with gaps between them.
std::vector<std::size_t> draw_offsets(const std::vector<std::size_t>& counts, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(order);
  std::vector<std::size_t> offsets(counts.size());
  std::size_t at = 0;
  for (const std::size_t block : order) {
    at += random.below(4);
    offsets[block] = at;
    at += counts[block];
  }
  return offsets;
}

std::vector<std::size_t> packed(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> offsets(counts.size(), 0);
  for (std::size_t i = 1; i < counts.size(); ++i) offsets[i] = offsets[i - 1] + counts[i - 1];
  return offsets;
}

class Shaper {
 public:
  Shaper(const Case& one, int rank, int ranks) : case_(one), rank_(rank), ranks_(ranks) {
    shape_.in_place = one.place == Place::in || (one.place == Place::mixed && ((hash(one.salt, 1) >> rank) & 1) != 0);
  }

  Shape make() {
    switch (case_.kind) {
      case Kind::all_reduce:
        whole(true, true);
        break;
      case Kind::reduce:
        whole(true, at_root());
        break;
      case Kind::broadcast:
        whole(at_root(), true);
        break;
      case Kind::all_gather:
      case Kind::all_gather_v:
        gather(true);
        break;
      case Kind::gather:
      case Kind::gather_v:
        gather(at_root());
        break;
      case Kind::reduce_scatter:
      case Kind::reduce_scatter_v:
        scatter(true);
        break;
      case Kind::scatter:
      case Kind::scatter_v:
        scatter(at_root());
        break;
      case Kind::all_to_all:
      case Kind::all_to_all_v:
        exchange();
        break;
      case Kind::messages:
        messages();
        break;
      case Kind::barrier:
        shape_.input.used = shape_.output.used = shape_.in_place = false;
        break;
    }
    return std::move(shape_);
  }

 private:
  bool at_root() const { return rank_ == case_.root; }
  std::size_t own() const { return static_cast<std::size_t>(rank_); }

  /// What `from` brings in block `block`.
  Bits operand(int from, int block, std::size_t index) const {
    const Draw draw{case_.salt, ranks_, from, block, index};
    return reduces(case_.kind) ? draw_operand(case_.type, case_.op, draw) : draw_any(case_.type, draw);
  }

  Block brought(int from, int block, std::size_t offset, std::size_t count) const {
    return {offset, count, make_pattern(case_.type, count, [&](std::size_t i) { return operand(from, block, i); })};
  }

  Block reduced(int block, std::size_t offset, std::size_t count) const {
    std::vector<Bits> operands(static_cast<std::size_t>(ranks_));
    return {offset, count, make_pattern(case_.type, count, [&](std::size_t i) {
              for (int from = 0; from < ranks_; ++from)
                operands[static_cast<std::size_t>(from)] = operand(from, block, i);
              return reduce_reference(case_.type, case_.op, case_.salt, operands);
            })};
  }

  static void add(Side& side, const Block& block) {
    side.blocks.push_back(block);
    side.elements = std::max(side.elements, block.offset + block.count);
  }

  /// all_reduce, reduce, broadcast.
  void whole(bool gives, bool gets) {
    shape_.input.used = gives;
    shape_.output.used = gets;
    shape_.input.elements = shape_.output.elements = case_.count;
    if (gives) add(shape_.input, brought(rank_, 0, 0, case_.count));
    if (gets)
      add(shape_.output,
          case_.kind == Kind::broadcast ? brought(case_.root, 0, 0, case_.count) : reduced(0, 0, case_.count));
  }

  std::size_t draw_count(int a, int b) const {
    const std::uint64_t random = hash(case_.salt, a, b, 0xC0);
    return case_.count == 0 || random % 4 == 0 ? 0 : (random >> 8) % (2 * case_.count);
  }

  /// The counts and offsets of one block per rank, as all ranks (or the root) see them.
  void blocks_per_rank(std::vector<std::size_t>& counts, std::vector<std::size_t>& offsets) const {
    for (int rank = 0; rank < ranks_; ++rank)
      counts.push_back(is_uneven(case_.kind) ? draw_count(rank, -1) : case_.count);
    if (is_uneven(case_.kind) && hash(case_.salt, 2) % 2 == 0) offsets = draw_offsets(counts, hash(case_.salt, 3));
  }

  /// all_gather, gather.
  void gather(bool gets) {
    blocks_per_rank(shape_.recv_counts, shape_.recv_offsets);
    const auto offsets = shape_.recv_offsets.empty() ? packed(shape_.recv_counts) : shape_.recv_offsets;
    shape_.own_count = shape_.recv_counts[own()];
    add(shape_.input, brought(rank_, 0, 0, shape_.own_count));
    for (int from = 0; from < ranks_; ++from) {
      const auto index = static_cast<std::size_t>(from);
      const Block block = brought(from, 0, offsets[index], shape_.recv_counts[index]);
      add(shape_.output, block);
    }
    shape_.output.used = gets;
    if (!gets) shape_.output.blocks.clear();
    shape_.in_place = shape_.in_place && gets;
    shape_.input_at = offsets[own()];
  }

  /// reduce_scatter, scatter.
  void scatter(bool gives) {
    blocks_per_rank(shape_.send_counts, shape_.send_offsets);
    const auto offsets = shape_.send_offsets.empty() ? packed(shape_.send_counts) : shape_.send_offsets;
    shape_.own_count = shape_.send_counts[own()];
    for (int to = 0; to < ranks_; ++to) {
      const auto index = static_cast<std::size_t>(to);
      add(shape_.input, brought(rank_, to, offsets[index], shape_.send_counts[index]));
    }
    shape_.input.used = gives;
    if (!gives) shape_.input.blocks.clear();
    add(shape_.output,
        reduces(case_.kind) ? reduced(rank_, 0, shape_.own_count) : brought(case_.root, rank_, 0, shape_.own_count));
    shape_.in_place = shape_.in_place && gives;
    shape_.output_at = offsets[own()];
  }

  std::size_t pair_count(int from, int to) const {
    if (!is_uneven(case_.kind)) return case_.count;
    // In place, what goes to a rank and what comes from it share a block.
    return case_.place == Place::out ? draw_count(from, to) : draw_count(std::min(from, to), std::max(from, to));
  }

  /// all_to_all.
  void exchange() {
    for (int peer = 0; peer < ranks_; ++peer) {
      shape_.send_counts.push_back(pair_count(rank_, peer));
      shape_.recv_counts.push_back(pair_count(peer, rank_));
    }
    if (is_uneven(case_.kind) && hash(case_.salt, rank_, 4) % 2 == 0) {
      shape_.send_offsets = draw_offsets(shape_.send_counts, hash(case_.salt, rank_, 5));
      shape_.recv_offsets =
          shape_.in_place ? shape_.send_offsets : draw_offsets(shape_.recv_counts, hash(case_.salt, rank_, 6));
    }
    const auto send_at = shape_.send_offsets.empty() ? packed(shape_.send_counts) : shape_.send_offsets;
    const auto recv_at = shape_.recv_offsets.empty() ? packed(shape_.recv_counts) : shape_.recv_offsets;
    for (int peer = 0; peer < ranks_; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      add(shape_.input, brought(rank_, peer, send_at[index], shape_.send_counts[index]));
      add(shape_.output, brought(peer, rank_, recv_at[index], shape_.recv_counts[index]));
    }
  }

  void messages() {
    Random random(hash(case_.salt, 7));
    std::vector<std::size_t> sent(static_cast<std::size_t>(ranks_), 0);
    std::vector<std::size_t> received = sent;
    shape_.in_place = false;
    const std::size_t many = random.between(1, 6);
    for (std::size_t number = 0; number < many; ++number) {
      SentMessage message;
      message.from = static_cast<int>(random.below(sent.size()));
      message.to = random.one_in(4) ? message.from : static_cast<int>(random.below(sent.size()));
      message.count = random.one_in(2) ? case_.count : random.below(case_.count + 1);
      std::size_t& send_end = sent[static_cast<std::size_t>(message.from)];
      std::size_t& recv_end = received[static_cast<std::size_t>(message.to)];
      message.send_offset = send_end;
      message.recv_offset = recv_end;
      send_end += message.count + random.below(4);
      recv_end += message.count + random.below(4);
      const int block = static_cast<int>(number);
      if (message.from == rank_) add(shape_.input, brought(message.from, block, message.send_offset, message.count));
      if (message.to == rank_) add(shape_.output, brought(message.from, block, message.recv_offset, message.count));
      shape_.messages.push_back(message);
    }
  }

  const Case& case_;
  int rank_;
  int ranks_;
  Shape shape_;
};

}  // namespace

void Block::write(std::byte* base, std::size_t element) const {
  std::byte* at = base + offset * element;
  for (std::size_t left = count * element; left > 0;) {
    const std::size_t bytes = std::min(left, pattern->bytes.size());
    std::memcpy(at, pattern->bytes.data(), bytes);
    at += bytes;
    left -= bytes;
  }
}

Shape make_shape(const Case& one, int rank, int ranks) { return Shaper(one, rank, ranks).make(); }

}  // namespace tutti::integration
