// Elements of every type as plain bits, and what a reduction of them must give: written without the library's own
// arithmetic, one element at a time, in rank order. Values are drawn such that no order of evaluation rounds.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::integration {

/// One element, in the low bits.
using Bits = std::uint64_t;

Bits load(DataType type, const std::byte* from);
void store(DataType type, Bits bits, std::byte* to);
std::string show(DataType type, Bits bits);

bool is_float(DataType type);
/// Whether the operator has a meaning for the type.
bool applies(Operator op, DataType type);

/// What identifies an element of a rank's input.
struct Draw {
  std::uint64_t salt = 0;
  int ranks = 1;
  int rank = 0;
  int block = 0;
  std::size_t index = 0;
};

/// Any bits, for data that is only moved.
Bits draw_any(DataType type, const Draw& draw);
/// An operand: the result over all ranks is exact, or for averages of floats rounded once.
Bits draw_operand(DataType type, Operator op, const Draw& draw);

/// The rank's factor for premultiplied_sum.
double factor_of(DataType type, std::uint64_t salt, int rank);

/// The user function under test: composes affine maps, packed in the halves of an element; associative and not
/// commutative. `context` is `&kComposeContext`.
void compose(const void* left, const void* right, void* result, std::size_t count, DataType type, void* context);
extern int kComposeContext;

/// As a call wants it.
Reduction reduction_of(Operator op, DataType type, std::uint64_t salt, int rank);

/// What the operands of ranks 0, 1, ... must give.
Bits reduce_reference(DataType type, Operator op, std::uint64_t salt, const std::vector<Bits>& operands);

/// Whether `got` is what the operator may give for `expected`: the same value, or for averages of floats the next one.
bool agrees(DataType type, Operator op, Bits got, Bits expected);

}  // namespace tutti::integration
