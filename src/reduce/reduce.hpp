// The arithmetic of reductions: one n-ary kernel per type and operator, in scalar, AVX2 and AVX-512 form.
// All forms give the same bits: element by element, left to right, 16-bit and 8-bit floats in a float32
// accumulator rounded once at the end, no FMA contraction. Integers wrap in their own type. A NaN result is always the
// positive quiet NaN, whatever the operands' bits; for min and max, -0 < +0. fp8 saturates; e5m2 keeps infinity, which
// an operand may be, or a product (of nine or more) or scaling that leaves float32. Kernels are pure; call from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

enum class Isa : std::uint8_t { scalar, avx2, avx512 };
/// The best this CPU has; TUTTI_ISA lowers it (a name that does not exist is logged once and ignored).
Isa best_isa();

/// Every target = sources[0] op sources[1] op ... (one source: a copy, bit for bit unless scaled or divided).
/// Targets may coincide exactly with sources; partial overlap is not allowed. No pointer need be aligned.
struct ReduceCall {
  void* const* targets = nullptr;
  int target_count = 1;
  const void* const* sources = nullptr;
  int source_count = 2;
  std::size_t elements = 0;
  double scale = 1.0;        // floats: multiplies the accumulator before it is rounded (average); 1: nothing
  std::int64_t divisor = 1;  // integers: at least 1: divides the accumulator, towards zero (average)
  bool stream = false;       // store past the cache, for targets larger than the caches
};
using ReduceKernel = void (*)(const ReduceCall& call);

/// Null where the operator has no meaning for the type (bit operators on floats) and for Operator::user.
/// average and premultiplied_sum share sum's kernel. Falls back to the CPU's best where it lacks `isa`.
ReduceKernel find_kernel(DataType type, Operator op, Isa isa = best_isa());

/// target[i] = source[i] * factor, multiplied in the accumulator's type and rounded to the element's; integers in
/// double, truncated towards zero, saturating (NaN: 0). A factor of 1 copies. `target` may be `source`.
void scale(void* target, const void* source, std::size_t elements, DataType type, double factor);

/// memcpy, with stores past the cache where `stream`; they are ordered before any store that follows.
void copy(void* target, const void* source, std::size_t bytes, bool stream);

/// Ok, or why this operator cannot be used with this type, naming both.
Status supports(DataType type, const Reduction& reduction);

}  // namespace tutti
