// The steps of a training-like job on three communicators: all ranks, all ranks in reverse order, every other rank.
// What a step does is drawn from the seed and the step's number, so all ranks agree. Every result is held against what
// it must be, bit by bit, and every call against its deadline; a wrong result ends the process. One thread.
//
// A step fails with what the first call that failed returned. By then all communicators but the first are aborted, and
// nothing is under way any more; the first one is left to be shrunk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "deadlines.hpp"
#include "journal.hpp"
#include "tutti/tutti.hpp"

namespace tutti::labs {

/// Seconds that calls have, besides Deadlines::kSlack.
struct Limits {
  static constexpr double kOperation = 20;          // Options::timeout
  static constexpr double kSplit = 3 * kOperation;  // three operations
  static constexpr double kDestruction = 8;         // what does not move is aborted after 5 s, what moves is sent
  static constexpr double kAtOnce = 0;
};

/// Memory of tutti::allocate(), or of the heap where that is refused.
class Memory {
 public:
  Memory(std::size_t count, Journal& journal, Deadlines& deadlines);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::span<float> span() { return {allocated_ != nullptr ? allocated_ : own_.data(), count_}; }

 private:
  std::size_t count_;
  Journal& journal_;
  Deadlines& deadlines_;
  float* allocated_ = nullptr;
  std::vector<float> own_;
};

class Steps {
 public:
  Steps(std::uint64_t seed, Journal& journal, Deadlines& deadlines);

  /// Takes the communicator of all ranks.
  void take(Communicator world) { world_ = std::move(world); }
  /// Splits the others off.
  Status split();
  /// Drops all communicators but the first, which it gives back.
  Communicator end();
  Communicator& world() { return *world_; }

  Status run(std::uint64_t step);
  /// Brings this rank into a state that is the same at any time: of regions there is one, which peers have used last
  /// and so gave up the others, and each communicator has touched all that its largest operations need.
  Status tidy();

 private:
  struct Pending {
    Work work;
    std::span<float> buffer;
    std::size_t count;
    int size;
    std::uint64_t number;
  };

  std::uint64_t draw(std::uint64_t purpose) const;
  std::size_t draw_count(std::uint64_t purpose) const;
  Communicator& draw_communicator(std::uint64_t purpose);
  std::uint64_t number(int part) const { return step_ * 16 + static_cast<std::uint64_t>(part); }

  Status run_drawn();
  Status all_reduce(Communicator& communicator, std::span<float> buffer, std::uint64_t number);
  Status all_gather(Communicator& communicator, std::size_t count, std::uint64_t number);
  Status ring(Communicator& communicator, std::size_t count, std::uint64_t number);
  Status buckets();
  Status polled();
  Status waited_in_slices();
  Status churn();
  Status short_lived();
  Status abort_one(Communicator& part);
  Status barrier();

  Status start(Communicator& communicator, std::span<float> buffer, std::uint64_t number);
  Status finish(Pending& pending);
  void check(const char* what, std::span<const float> got, int begin, int end, std::uint64_t number);
  void compute(std::int64_t microseconds);
  void abandon();

  std::uint64_t seed_;
  Journal& journal_;
  Deadlines& deadlines_;
  std::uint64_t step_ = 0;
  std::optional<Communicator> world_;
  std::unique_ptr<Communicator> reversed_;
  std::unique_ptr<Communicator> half_;
  std::vector<std::vector<float>> ordinary_;
  std::vector<std::unique_ptr<Memory>> regions_;
  std::vector<float> gathered_;
  std::vector<Pending> pending_;
  float sink_ = 0;
};

}  // namespace tutti::labs
