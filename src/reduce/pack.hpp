// A Pack is what one instruction works on: the plain type with one lane, a compiler vector with more. The operators
// mean the same on both (a comparison selects by `?:`), so that one formula serves every instruction set.
// Files that include this are compiled for different instruction sets. Hence every function is always inlined and
// none calls into std: an out-of-line copy made for one set must never be linked into code that runs on another.
#pragma once

#include <cstdint>
#include <type_traits>

#define TUTTI_INLINE [[gnu::always_inline]] inline

namespace tutti {

template <typename T, int kLanes>
struct PackOf {
  typedef T type __attribute__((vector_size(sizeof(T) * kLanes)));
};
template <typename T>
struct PackOf<T, 1> {
  using type = T;
};
template <typename T, int kLanes>
using Pack = typename PackOf<T, kLanes>::type;

/// The unsigned integer as wide as T.
template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <typename To, typename From>
TUTTI_INLINE To reinterpret(From from) {
  return __builtin_bit_cast(To, from);
}

/// The same value in every lane. Subtracting zero keeps every value, minus zero too.
template <typename T, int kLanes>
TUTTI_INLINE Pack<T, kLanes> splat(T value) {
  if constexpr (kLanes == 1) {
    return value;
  } else {
    return value - Pack<T, kLanes>{};
  }
}

/// Each lane as the nearest value of another type; integers keep their low bits.
template <typename To, int kLanes, typename From>
TUTTI_INLINE Pack<To, kLanes> convert(From from) {
  if constexpr (kLanes == 1) {
    return static_cast<To>(from);
  } else {
    return __builtin_convertvector(from, Pack<To, kLanes>);
  }
}

/// Memory need not be aligned.
template <typename P>
TUTTI_INLINE P load(const void* at) {
  P pack;
  __builtin_memcpy(&pack, at, sizeof(P));
  return pack;
}
template <typename P>
TUTTI_INLINE void store(void* at, P pack) {
  __builtin_memcpy(at, &pack, sizeof(P));
}

}  // namespace tutti
