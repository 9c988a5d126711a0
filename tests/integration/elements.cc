#include "elements.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "random.hpp"
#include "reduce/float_format.hpp"

namespace tutti::integration {
namespace {

int width_of(DataType type) { return static_cast<int>(size_of(type)) * 8; }

Bits mask_of(int width) { return width == 64 ? ~Bits{0} : (Bits{1} << width) - 1; }

bool is_signed(DataType type) { return type == DataType::int8 || type == DataType::int32 || type == DataType::int64; }

double decode(DataType type, Bits bits) { return decode_float(bits, float_format(type)); }

Bits encode(DataType type, double value) { return encode_float(value, float_format(type)); }

double last_place(DataType type, double value) {
  const FloatFormat format = float_format(type);
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, 1 - format.bias()) - format.fraction_bits);
}

/// The integer an element stands for; unsigned 64-bit values keep their bits.
std::int64_t integer(DataType type, Bits bits) {
  const int width = width_of(type);
  if (!is_signed(type)) return static_cast<std::int64_t>(bits);
  return static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width);
}

bool less(DataType type, Bits a, Bits b) {
  if (is_float(type)) return decode(type, a) < decode(type, b);
  return is_signed(type) ? integer(type, a) < integer(type, b) : a < b;
}

/// -amplitude .. amplitude, or 0 .. amplitude.
std::int64_t within(std::uint64_t random, std::uint64_t amplitude, bool negative_too) {
  if (!negative_too)
    return static_cast<std::int64_t>(amplitude == ~std::uint64_t{0} ? random : random % (amplitude + 1));
  return static_cast<std::int64_t>(random % (2 * amplitude + 1)) - static_cast<std::int64_t>(amplitude);
}

std::uint64_t random_of(const Draw& draw) { return hash(draw.salt, draw.rank, draw.block, draw.index); }

/// Whether the rank is one of `many` that bring something to this element: few enough that the result stays exact.
bool takes_part(const Draw& draw, int many) {
  const std::uint64_t turn = hash(draw.salt, draw.block, draw.index) % static_cast<std::uint64_t>(draw.ranks);
  return (draw.rank + static_cast<int>(turn)) % draw.ranks < many;
}

Bits draw_float(DataType type, Operator op, const Draw& draw) {
  const std::uint64_t random = random_of(draw);
  // Integers up to this are exact, in every partial sum.
  const std::uint64_t exact = std::uint64_t{1} << std::min(float_format(type).fraction_bits + 1, 30);
  if (op == Operator::product) {
    const double magnitude = takes_part(draw, 4) && (random & 2) != 0 ? 2.0 : 1.0;
    return encode(type, (random & 1) != 0 ? -magnitude : magnitude);
  }
  if (op == Operator::min || op == Operator::max) return encode(type, static_cast<double>(within(random, exact, true)));
  const std::uint64_t largest_factor = op == Operator::premultiplied_sum ? 2 : 1;
  const std::uint64_t many = std::min<std::uint64_t>(static_cast<std::uint64_t>(draw.ranks), exact / largest_factor);
  if (!takes_part(draw, static_cast<int>(many))) return 0;
  return encode(type, static_cast<double>(within(random, exact / largest_factor / many, true)));
}

Bits draw_integer(DataType type, Operator op, const Draw& draw) {
  const std::uint64_t random = random_of(draw);
  const Bits mask = mask_of(width_of(type));
  const std::uint64_t largest = is_signed(type) ? mask >> 1 : mask;
  if (op == Operator::average)
    return static_cast<Bits>(within(random, largest / static_cast<std::uint64_t>(draw.ranks), is_signed(type))) & mask;
  if (op == Operator::premultiplied_sum)  // the factor is a double, which holds integers up to 2^53
    return static_cast<Bits>(within(random, std::min<std::uint64_t>(largest / 2, 1ULL << 50), is_signed(type))) & mask;
  return random & mask;
}

Bits divide(DataType type, Bits sum, std::size_t ranks) {
  const Bits mask = mask_of(width_of(type));
  if (!is_signed(type)) return sum / ranks;
  return static_cast<Bits>(integer(type, sum) / static_cast<std::int64_t>(ranks)) & mask;
}

/// `right` after `left`, each x -> a x + b with a and b in the halves of an element.
Bits compose_one(int width, Bits left, Bits right) {
  const int half = width / 2;
  const Bits mask = mask_of(half);
  const Bits a = (left >> half) * (right >> half) & mask;
  const Bits b = ((right >> half) * (left & mask) + (right & mask)) & mask;
  return a << half | b;
}

Bits reduce_floats(DataType type, Operator op, std::uint64_t salt, const std::vector<Bits>& operands) {
  double result = op == Operator::product ? 1 : 0;
  for (std::size_t rank = 0; rank < operands.size(); ++rank) {
    const double value = decode(type, operands[rank]);
    switch (op) {
      case Operator::product:
        result *= value;
        break;
      case Operator::premultiplied_sum:
        result += value * factor_of(type, salt, static_cast<int>(rank));
        break;
      default:
        result += value;
    }
  }
  if (op == Operator::average) result /= static_cast<double>(operands.size());
  return encode(type, result);
}

Bits reduce_integers(DataType type, Operator op, std::uint64_t salt, const std::vector<Bits>& operands) {
  const Bits mask = mask_of(width_of(type));
  Bits result = operands[0];
  if (op == Operator::premultiplied_sum) result = 0;
  for (std::size_t rank = op == Operator::premultiplied_sum ? 0 : 1; rank < operands.size(); ++rank) {
    const Bits value = operands[rank];
    switch (op) {
      case Operator::product:
        result *= value;
        break;
      case Operator::bit_and:
        result &= value;
        break;
      case Operator::bit_or:
        result |= value;
        break;
      case Operator::bit_xor:
        result ^= value;
        break;
      case Operator::premultiplied_sum:
        result += static_cast<Bits>(integer(type, value)) *
                  static_cast<Bits>(static_cast<std::int64_t>(factor_of(type, salt, static_cast<int>(rank))));
        break;
      default:
        result += value;
    }
    result &= mask;
  }
  return op == Operator::average ? divide(type, result, operands.size()) : result;
}

}  // namespace

int kComposeContext = 0;

Bits load(DataType type, const std::byte* from) {
  Bits bits = 0;
  std::memcpy(&bits, from, size_of(type));
  return bits;
}

void store(DataType type, Bits bits, std::byte* to) { std::memcpy(to, &bits, size_of(type)); }

std::string show(DataType type, Bits bits) {
  if (is_float(type)) return fmt::format("{:g} (0x{:x})", decode(type, bits), bits);
  return is_signed(type) ? fmt::format("{}", integer(type, bits)) : fmt::format("{}", bits);
}

bool is_float(DataType type) { return static_cast<int>(type) >= static_cast<int>(DataType::float16); }

bool applies(Operator op, DataType type) {
  const bool bitwise = op == Operator::bit_and || op == Operator::bit_or || op == Operator::bit_xor;
  return !bitwise || !is_float(type);
}

Bits draw_any(DataType type, const Draw& draw) { return random_of(draw) & mask_of(width_of(type)); }

Bits draw_operand(DataType type, Operator op, const Draw& draw) {
  if (op == Operator::user) return draw_any(type, draw);
  return is_float(type) ? draw_float(type, op, draw) : draw_integer(type, op, draw);
}

double factor_of(DataType type, std::uint64_t salt, int rank) {
  constexpr double kFactors[] = {1, 2, -1};
  return kFactors[hash(salt, rank, 0xFAC) % (is_signed(type) || is_float(type) ? 3 : 2)];
}

void compose(const void* left, const void* right, void* result, std::size_t count, DataType type, void* context) {
  if (context != &kComposeContext) std::abort();
  const std::size_t element = size_of(type);
  for (std::size_t i = 0; i < count * element; i += element)
    store(type,
          compose_one(width_of(type), load(type, static_cast<const std::byte*>(left) + i),
                      load(type, static_cast<const std::byte*>(right) + i)),
          static_cast<std::byte*>(result) + i);
}

Reduction reduction_of(Operator op, DataType type, std::uint64_t salt, int rank) {
  if (op == Operator::user) return Reduction::user(compose, &kComposeContext);
  if (op == Operator::premultiplied_sum) return Reduction::premultiplied(factor_of(type, salt, rank));
  return op;
}

Bits reduce_reference(DataType type, Operator op, std::uint64_t salt, const std::vector<Bits>& operands) {
  if (op == Operator::min || op == Operator::max) {
    const auto before = [&](Bits a, Bits b) { return less(type, a, b); };
    return op == Operator::min ? *std::min_element(operands.begin(), operands.end(), before)
                               : *std::max_element(operands.begin(), operands.end(), before);
  }
  if (op == Operator::user) {
    Bits result = operands[0];
    for (std::size_t rank = 1; rank < operands.size(); ++rank)
      result = compose_one(width_of(type), result, operands[rank]);
    return result;
  }
  return is_float(type) ? reduce_floats(type, op, salt, operands) : reduce_integers(type, op, salt, operands);
}

bool agrees(DataType type, Operator op, Bits got, Bits expected) {
  if (got == expected) return true;
  if (!is_float(type) || op == Operator::user) return false;
  const double value = decode(type, expected);
  const double difference = std::fabs(decode(type, got) - value);
  return op == Operator::average ? difference <= last_place(type, value) : difference == 0;
}

}  // namespace tutti::integration
