#include "data.hpp"

#include <algorithm>

namespace peers {

namespace {

float value(int rank, std::size_t index, std::size_t salt) {
  return static_cast<float>((rank + 1) * static_cast<int>((index + salt) & 15));
}

float expected(const Operation& operation, const Shape& shape, std::size_t index, int rank, int ranks,
               std::size_t salt) {
  const int everyone = ranks * (ranks + 1) / 2 - 1;  // value() of this "rank" is the sum over all
  const std::size_t block = static_cast<std::size_t>(rank) * shape.count;
  switch (operation.collective) {
    case Collective::all_reduce:
      return value(everyone, index, salt);
    case Collective::all_gather:
      return value(static_cast<int>(index / shape.count), index % shape.count, salt);
    case Collective::reduce_scatter:
      return value(everyone, block + index, salt);
    case Collective::broadcast:
      return value(operation.root, index, salt);
    case Collective::all_to_all:
      return value(static_cast<int>(index / shape.count), block + index % shape.count, salt);
    case Collective::send_recv:
      return value(rank ^ 1, index, salt);
  }
  return 0;
}

std::size_t stride_of(std::size_t elements) {
  constexpr std::size_t kLooks = 4000;
  return std::max<std::size_t>(1, elements / kLooks);
}

}  // namespace

Shape shape_of(Collective collective, std::size_t bytes, int ranks) {
  const std::size_t all = bytes / sizeof(float);
  const std::size_t block = all / static_cast<std::size_t>(ranks);
  const std::size_t blocks = block * static_cast<std::size_t>(ranks);
  switch (collective) {
    case Collective::all_gather:
      return {block, blocks, block};
    case Collective::reduce_scatter:
      return {blocks, block, block};
    case Collective::all_to_all:
      return {blocks, blocks, block};
    default:
      return {all, all, all};
  }
}

void fill(float* send, std::size_t elements, int rank, std::size_t salt) {
  const int factor = rank + 1;
  for (std::size_t i = 0; i < elements; ++i) {
    send[i] =
        static_cast<float>(factor * static_cast<int>((static_cast<unsigned>(i) + static_cast<unsigned>(salt)) & 15));
  }
}

void spoil(float* recv, std::size_t elements) {
  for (std::size_t i = 0; i < elements; i += stride_of(elements)) recv[i] = -1;
}

std::size_t find_wrong(const Operation& operation, const Shape& shape, int rank, int ranks, std::size_t salt) {
  if (operation.collective == Collective::broadcast && operation.root == rank) return shape.recv;
  for (std::size_t i = 0; i < shape.recv; i += stride_of(shape.recv)) {
    if (operation.recv[i] != expected(operation, shape, i, rank, ranks, salt)) return i;
  }
  return shape.recv;
}

}  // namespace peers
