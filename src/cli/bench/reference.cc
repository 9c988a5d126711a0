#include "cli/bench/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reduce/float_format.hpp"

namespace tutti::cli {
namespace {

bool is_small_float(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float8_e4m3 ||
         type == DataType::float8_e5m2;
}

bool is_float(DataType type) { return is_small_float(type) || type == DataType::float32 || type == DataType::float64; }

bool is_unsigned(DataType type) {
  return type == DataType::uint8 || type == DataType::uint32 || type == DataType::uint64;
}

template <typename T>
double load(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
void store(double value, std::byte* element) {
  const T converted = static_cast<T>(value);
  std::memcpy(element, &converted, sizeof converted);
}

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// What keeps every partial result of an operator exact in a type: how many ranks give something else than the neutral
/// element, and how large it is.
struct ExactInputs {
  int contributors;
  int magnitude;
};

ExactInputs bounds_of(DataType type, Operator op) {
  if (op == Operator::product) return {6, 2};
  const bool eight_bit_float = type == DataType::float8_e4m3 || type == DataType::float8_e5m2;
  ExactInputs bounds = eight_bit_float      ? ExactInputs{4, 2}
                       : size_of(type) == 1 ? ExactInputs{16, 7}
                                            : ExactInputs{32, 7};
  if (op == Operator::premultiplied_sum) bounds.contributors /= 2;
  return bounds;
}

double input_value(int rank, int ranks, DataType type, Operator op, std::uint64_t seed, std::size_t index) {
  const ExactInputs bounds = bounds_of(type, op);
  const std::uint64_t here = mix(seed * 0x9e3779b97f4a7c15ULL + index);
  const std::uint64_t noise = mix(here + static_cast<std::uint64_t>(rank) + 1);
  const double magnitude = 1.0 + static_cast<double>(noise % static_cast<std::uint64_t>(bounds.magnitude));
  const bool negative = !is_unsigned(type) && (noise >> 32) % 2 == 1;
  if (op == Operator::min || op == Operator::max) return negative ? -magnitude : magnitude;
  const std::uint64_t turn = (static_cast<std::uint64_t>(rank) + here) % static_cast<std::uint64_t>(ranks);
  const bool contributes = turn < static_cast<std::uint64_t>(bounds.contributors);
  if (op == Operator::product) return contributes ? magnitude : 1.0;
  if (!contributes) return 0.0;
  return negative ? -magnitude : magnitude;
}

double reduced_value(int ranks, DataType type, Operator op, std::uint64_t seed, std::size_t index) {
  double total = 0.0;
  for (int rank = 0; rank < ranks; ++rank) {
    const double value = input_value(rank, ranks, type, op, seed, index);
    if (rank == 0) {
      total = op == Operator::premultiplied_sum ? value * premultiplier(rank) : value;
      continue;
    }
    switch (op) {
      case Operator::product:
        total *= value;
        break;
      case Operator::min:
        total = std::min(total, value);
        break;
      case Operator::max:
        total = std::max(total, value);
        break;
      case Operator::premultiplied_sum:
        total += value * premultiplier(rank);
        break;
      default:
        total += value;
    }
  }
  if (op != Operator::average) return total;
  return is_float(type) ? total / ranks : std::trunc(total / ranks);
}

}  // namespace

double premultiplier(int rank) { return 1.0 + rank % 2; }

double decode(const std::byte* element, DataType type) {
  switch (type) {
    case DataType::int8:
      return load<std::int8_t>(element);
    case DataType::uint8:
      return load<std::uint8_t>(element);
    case DataType::int32:
      return load<std::int32_t>(element);
    case DataType::uint32:
      return load<std::uint32_t>(element);
    case DataType::int64:
      return load<std::int64_t>(element);
    case DataType::uint64:
      return load<std::uint64_t>(element);
    case DataType::float32:
      return load<float>(element);
    case DataType::float64:
      return load<double>(element);
    default:
      break;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, element, size_of(type));
  return decode_float(bits, float_format(type));
}

void encode(double value, std::byte* element, DataType type) {
  switch (type) {
    case DataType::int8:
      return store<std::int8_t>(value, element);
    case DataType::uint8:
      return store<std::uint8_t>(value, element);
    case DataType::int32:
      return store<std::int32_t>(value, element);
    case DataType::uint32:
      return store<std::uint32_t>(value, element);
    case DataType::int64:
      return store<std::int64_t>(value, element);
    case DataType::uint64:
      return store<std::uint64_t>(value, element);
    case DataType::float32:
      return store<float>(value, element);
    case DataType::float64:
      return store<double>(value, element);
    default:
      break;
  }
  const auto bits = static_cast<std::uint16_t>(encode_float(value, float_format(type)));
  std::memcpy(element, &bits, size_of(type));
}

Tile::Tile(DataType type, double tolerance)
    : type_(type), element_bytes_(size_of(type)), tolerance_(tolerance), bytes_(kPeriod * element_bytes_) {}

Tile Tile::input(int rank, int ranks, DataType type, Operator op, std::uint64_t seed) {
  Tile tile(type, 0.0);
  for (std::size_t i = 0; i < kPeriod; ++i)
    encode(input_value(rank, ranks, type, op, seed, i), &tile.bytes_[i * tile.element_bytes_], type);
  return tile;
}

Tile Tile::reduced(int ranks, DataType type, Operator op, std::uint64_t seed) {
  const bool rounds = op == Operator::average && is_float(type);
  Tile tile(type, rounds ? std::ldexp(1.0, -float_format(type).fraction_bits) : 0.0);
  for (std::size_t i = 0; i < kPeriod; ++i)
    encode(reduced_value(ranks, type, op, seed, i), &tile.bytes_[i * tile.element_bytes_], type);
  return tile;
}

void Tile::fill(std::byte* target, std::size_t count, std::size_t phase) const {
  for (phase %= kPeriod; count > 0; phase = 0) {
    const std::size_t part = std::min(count, kPeriod - phase);
    std::memcpy(target, &bytes_[phase * element_bytes_], part * element_bytes_);
    target += part * element_bytes_;
    count -= part;
  }
}

std::size_t Tile::count_wrong(const std::byte* data, std::size_t count, std::size_t phase) const {
  std::size_t wrong = 0;
  for (phase %= kPeriod; count > 0; phase = 0) {
    const std::size_t part = std::min(count, kPeriod - phase);
    const std::byte* expected = &bytes_[phase * element_bytes_];
    // Most often all is well, and one comparison says so.
    const bool equal = std::memcmp(data, expected, part * element_bytes_) == 0;
    for (std::size_t i = 0; !equal && i < part; ++i) {
      const double want = decode(expected + i * element_bytes_, type_);
      const double got = decode(data + i * element_bytes_, type_);
      if (!(std::fabs(got - want) <= tolerance_ * std::fabs(want))) ++wrong;
    }
    data += part * element_bytes_;
    count -= part;
  }
  return wrong;
}

}  // namespace tutti::cli
