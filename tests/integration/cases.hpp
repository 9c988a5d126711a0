// What is tried: cases drawn from a seed, the same on every rank. First a pairwise cover (every pair of values of any
// two properties occurs in some case), then a random sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::integration {

enum class Kind : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,
  all_gather_v,
  reduce_scatter_v,
  all_to_all_v,
  gather_v,
  scatter_v,
  messages,  // sends and receives between random pairs, to self included
};
inline constexpr int kKinds = 15;

enum class Place : std::uint8_t { out, in, mixed };  // mixed: some ranks in place, others not
enum class Memory : std::uint8_t { ordinary, allocated, mixed };
enum class Mode : std::uint8_t { blocking, async, group };
enum class CountClass : std::uint8_t { zero, one, odd, prime, middle, large };
enum class RootClass : std::uint8_t { first, middle, last };

struct Case {
  Kind kind = Kind::barrier;
  DataType type = DataType::uint8;
  Operator op = Operator::sum;
  CountClass count_class = CountClass::one;
  Place place = Place::out;
  Memory memory = Memory::ordinary;
  Mode mode = Mode::blocking;
  RootClass root_class = RootClass::first;
  // What follows from the above, the seed and the number of ranks.
  std::size_t count = 0;
  int root = 0;
  std::uint64_t salt = 0;
};

bool reduces(Kind kind);
bool is_uneven(Kind kind);

/// "all_reduce(4099 x float16, sum), in place, allocated memory, async"
std::string describe(const Case& one);

struct CaseOptions {
  std::uint64_t seed = 1;
  std::size_t cases = 0;  // 0: the cover alone
  int ranks = 1;
  std::size_t most_bytes = 4 << 20;  // of one rank's larger buffer
};

/// In the order in which all ranks run them.
std::vector<Case> make_cases(const CaseOptions& options);

/// Cases that run together: one alone, or for `async` and `group` a few of the same mode.
std::vector<std::vector<Case>> make_batches(const std::vector<Case>& cases, std::uint64_t seed);

}  // namespace tutti::integration
