// The operators by the lane, and what happens to an accumulator before it is stored. Defined so that no instruction
// set can differ from another: integers wrap, -0 < +0, and a NaN result is always the positive quiet NaN.
// Always inlined (see pack.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "reduce/pack.hpp"
#include "reduce/reduce.hpp"

namespace tutti {

struct Sum {
  template <typename T, int kLanes>
  TUTTI_INLINE static Pack<T, kLanes> apply(Pack<T, kLanes> a, Pack<T, kLanes> b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {
      using Unsigned = Pack<BitsOf<T>, kLanes>;
      return (Pack<T, kLanes>)((Unsigned)a + (Unsigned)b);  // signed overflow is undefined, unsigned wraps
    }
  }
};

struct Product {
  template <typename T, int kLanes>
  TUTTI_INLINE static Pack<T, kLanes> apply(Pack<T, kLanes> a, Pack<T, kLanes> b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      using Unsigned = Pack<BitsOf<T>, kLanes>;
      return (Pack<T, kLanes>)((Unsigned)a * (Unsigned)b);
    }
  }
};

struct Min {
  template <typename T, int kLanes>
  TUTTI_INLINE static Pack<T, kLanes> apply(Pack<T, kLanes> a, Pack<T, kLanes> b) {
    if constexpr (std::is_floating_point_v<T>) {
      // The two differ only for zeros and NaN: then one is a and the other b, and their bits joined are -0 or NaN.
      using Bits = Pack<BitsOf<T>, kLanes>;
      const Pack<T, kLanes> left = a < b ? a : b;
      const Pack<T, kLanes> right = b < a ? b : a;
      return reinterpret<Pack<T, kLanes>>(reinterpret<Bits>(left) | reinterpret<Bits>(right));
    } else {
      return a < b ? a : b;
    }
  }
};

struct Max {
  template <typename T, int kLanes>
  TUTTI_INLINE static Pack<T, kLanes> apply(Pack<T, kLanes> a, Pack<T, kLanes> b) {
    if constexpr (std::is_floating_point_v<T>) {
      return -Min::apply<T, kLanes>(-a, -b);
    } else {
      return a > b ? a : b;
    }
  }
};

struct BitAnd {
  template <typename T, int kLanes>
  TUTTI_INLINE static Pack<T, kLanes> apply(Pack<T, kLanes> a, Pack<T, kLanes> b) {
    return a & b;
  }
};

struct BitOr {
  template <typename T, int kLanes>
  TUTTI_INLINE static Pack<T, kLanes> apply(Pack<T, kLanes> a, Pack<T, kLanes> b) {
    return a | b;
  }
};

struct BitXor {
  template <typename T, int kLanes>
  TUTTI_INLINE static Pack<T, kLanes> apply(Pack<T, kLanes> a, Pack<T, kLanes> b) {
    return a ^ b;
  }
};

/// What is done to a floating-point accumulator at the end: scaled where asked, NaN made the one NaN.
template <typename T, int kLanes>
struct FloatFinish {
  using Value = Pack<T, kLanes>;
  bool scaled;
  Value factor;

  TUTTI_INLINE explicit FloatFinish(const ReduceCall& call)
      : scaled(call.scale != 1.0), factor(splat<T, kLanes>(static_cast<T>(call.scale))) {}

  TUTTI_INLINE bool does_nothing() const { return !scaled; }

  TUTTI_INLINE Value apply(Value value) const {
    if (scaled) value = value * factor;
    return value == value ? value : splat<T, kLanes>(static_cast<T>(__builtin_nanf("")));
  }
};

/// What is done to an integer accumulator at the end: divided where asked, towards zero.
template <typename T, int kLanes>
struct IntegerFinish {
  using Value = Pack<T, kLanes>;
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  Wide divisor;

  TUTTI_INLINE explicit IntegerFinish(const ReduceCall& call) : divisor(static_cast<Wide>(call.divisor)) {}

  TUTTI_INLINE bool does_nothing() const { return divisor == 1; }

  TUTTI_INLINE Value apply(Value value) const { return divisor == 1 ? value : divided(value); }

 private:
  TUTTI_INLINE Value divided(Value value) const {
    if constexpr (kLanes == 1) {
      return static_cast<T>(static_cast<Wide>(value) / divisor);
    } else {
      for (int lane = 0; lane < kLanes; ++lane) value[lane] = static_cast<T>(static_cast<Wide>(value[lane]) / divisor);
      return value;
    }
  }
};

}  // namespace tutti
