// Floats smaller than float32: how their codes become float32 and how float32 is rounded to them, to nearest, ties to
// even. Subnormals are kept, and so is NaN. Beyond the largest finite value float16 and bfloat16
// become infinite; e4m3 saturates, infinity too, as it has none; e5m2 saturates but keeps infinity, so that an
// infinite operand is not mistaken for a finite one.
// By the lane, for one value or a register of them; always inlined (see pack.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "reduce/pack.hpp"

namespace tutti {

enum class Overflow { to_infinity, saturates };

struct Float16 {
  using Code = std::uint16_t;
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 10;
  static constexpr std::uint32_t kLargest = 0x7bff;
  static constexpr std::uint32_t kQuietNan = 0x7e00;
  static constexpr bool kHasInfinity = true;
  static constexpr Overflow kOverflow = Overflow::to_infinity;
};

struct Bfloat16 {
  using Code = std::uint16_t;
};

struct E4m3 {
  using Code = std::uint8_t;
  static constexpr int kExponentBits = 4;
  static constexpr int kMantissaBits = 3;
  static constexpr std::uint32_t kLargest = 0x7e;
  static constexpr std::uint32_t kQuietNan = 0x7f;
  static constexpr bool kHasInfinity = false;
  static constexpr Overflow kOverflow = Overflow::saturates;
};

struct E5m2 {
  using Code = std::uint8_t;
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 2;
  static constexpr std::uint32_t kLargest = 0x7b;
  static constexpr std::uint32_t kQuietNan = 0x7e;
  static constexpr bool kHasInfinity = true;
  static constexpr Overflow kOverflow = Overflow::saturates;
};

inline constexpr std::uint32_t kFloatMagnitude = 0x7fffffff;
inline constexpr std::uint32_t kFloatInfinity = 0x7f800000;
inline constexpr std::uint32_t kFloatQuietNan = 0x7fc00000;

/// Where a format's fields lie relative to float32's.
template <class Format>
struct BitLayout {
  static constexpr int kBias = (1 << (Format::kExponentBits - 1)) - 1;
  static constexpr int kSignBit = Format::kExponentBits + Format::kMantissaBits;
  static constexpr int kDropped = 23 - Format::kMantissaBits;  // mantissa bits float32 has more
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr std::uint32_t kInfinity = ((1u << Format::kExponentBits) - 1) << Format::kMantissaBits;
  static constexpr std::uint32_t kSmallestNormal = kRebias + (1u << 23);  // as float32 bits
  // As float32 bits: the smallest subnormal, and the number that has it as its last place.
  static constexpr std::uint32_t kSubnormalUnit = static_cast<std::uint32_t>(128 - kBias - Format::kMantissaBits) << 23;
  static constexpr std::uint32_t kSubnormalRounder = kSubnormalUnit + (23u << 23);
};

/// a < b for lanes below 2^31, where the signed comparison is right and AVX2 has no other.
template <int kLanes>
TUTTI_INLINE auto is_less(Pack<std::uint32_t, kLanes> a, Pack<std::uint32_t, kLanes> b) {
  using Signed = Pack<std::int32_t, kLanes>;
  return reinterpret<Signed>(a) < reinterpret<Signed>(b);
}

/// The value of each code (the low bits of each lane).
template <class Format, int kLanes>
TUTTI_INLINE Pack<float, kLanes> decode(Pack<std::uint32_t, kLanes> code) {
  using Bits = Pack<std::uint32_t, kLanes>;
  using Floats = Pack<float, kLanes>;
  if constexpr (std::is_same_v<Format, Bfloat16>) {
    return reinterpret<Floats>(code << 16);
  } else {
    using L = BitLayout<Format>;
    const Bits magnitude = code & splat<std::uint32_t, kLanes>((1u << L::kSignBit) - 1);
    const Bits sign = (code ^ magnitude) << (31 - L::kSignBit);
    const Bits shifted = magnitude << L::kDropped;

    const Floats count = convert<float, kLanes>(reinterpret<Pack<std::int32_t, kLanes>>(magnitude));
    const Floats subnormal = count * splat<float, kLanes>(reinterpret<float>(L::kSubnormalUnit));
    const Bits smallest_normal = splat<std::uint32_t, kLanes>(1u << Format::kMantissaBits);
    Bits bits = is_less<kLanes>(magnitude, smallest_normal) ? reinterpret<Bits>(subnormal)
                                                            : shifted + splat<std::uint32_t, kLanes>(L::kRebias);
    if constexpr (Format::kHasInfinity) {
      const Bits special = shifted | splat<std::uint32_t, kLanes>(kFloatInfinity);
      bits = is_less<kLanes>(magnitude, splat<std::uint32_t, kLanes>(L::kInfinity)) ? bits : special;
    } else {
      const Bits nan = splat<std::uint32_t, kLanes>(kFloatQuietNan);
      bits = magnitude == splat<std::uint32_t, kLanes>(Format::kQuietNan) ? nan : bits;
    }
    return reinterpret<Floats>(bits | sign);
  }
}

/// Rounded to a multiple of 2^kDropped, to nearest, ties to even; the low bits are left to be dropped.
template <int kDropped, int kLanes>
TUTTI_INLINE Pack<std::uint32_t, kLanes> rounded(Pack<std::uint32_t, kLanes> bits) {
  const auto odd = (bits >> kDropped) & splat<std::uint32_t, kLanes>(1);
  return bits + odd + splat<std::uint32_t, kLanes>((1u << (kDropped - 1)) - 1);
}

/// Drops the low `kDropped` bits, to nearest, ties to even.
template <int kDropped, int kLanes>
TUTTI_INLINE Pack<std::uint32_t, kLanes> round_off(Pack<std::uint32_t, kLanes> bits) {
  return rounded<kDropped, kLanes>(bits) >> kDropped;
}

/// The code nearest to each value, in the low bits of each lane. A NaN must be positive and have no bits set but the
/// quiet one, as FloatFinish leaves it.
template <class Format, int kLanes>
TUTTI_INLINE Pack<std::uint32_t, kLanes> encode(Pack<float, kLanes> value) {
  using Bits = Pack<std::uint32_t, kLanes>;
  using Floats = Pack<float, kLanes>;
  const Bits bits = reinterpret<Bits>(value);
  if constexpr (std::is_same_v<Format, Bfloat16>) {
    return round_off<16, kLanes>(bits);
  } else {
    using L = BitLayout<Format>;
    const Bits magnitude = bits & splat<std::uint32_t, kLanes>(kFloatMagnitude);
    const Bits sign = (bits ^ magnitude) >> (31 - L::kSignBit);

    // Where the format overflows to infinity, the power of two past its largest value carries into infinity's code.
    constexpr std::uint32_t kPast = Format::kOverflow == Overflow::saturates ? Format::kLargest : L::kInfinity;
    const Bits limit = splat<std::uint32_t, kLanes>((kPast << L::kDropped) + L::kRebias);
    const Bits clamped = is_less<kLanes>(magnitude, limit) ? magnitude : limit;
    const Bits normal = round_off<L::kDropped, kLanes>(clamped - splat<std::uint32_t, kLanes>(L::kRebias));

    // Adding a number whose last place is the smallest subnormal rounds to a count of those in its low bits.
    const Bits rounder = splat<std::uint32_t, kLanes>(L::kSubnormalRounder);
    const Bits subnormal = reinterpret<Bits>(reinterpret<Floats>(magnitude) + reinterpret<Floats>(rounder)) - rounder;

    const Bits smallest_normal = splat<std::uint32_t, kLanes>(L::kSmallestNormal);
    Bits code = is_less<kLanes>(magnitude, smallest_normal) ? subnormal : normal;
    const Bits infinity = splat<std::uint32_t, kLanes>(kFloatInfinity);
    if constexpr (Format::kHasInfinity) {
      code = magnitude == infinity ? splat<std::uint32_t, kLanes>(L::kInfinity) : code;
    }
    code = is_less<kLanes>(infinity, magnitude) ? splat<std::uint32_t, kLanes>(Format::kQuietNan) : code;
    return code | sign;
  }
}

}  // namespace tutti
