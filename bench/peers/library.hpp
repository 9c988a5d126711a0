// What the loop asks of a communication library: one adapter each, as thin as its API allows, so that all are timed by
// the same loop on the same data. An adapter fails by ending the process with a message; there is nothing to recover.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace peers {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv };

/// float32, sum. `count` is the whole vector for all_reduce, broadcast and send_recv, and one block for the others.
struct Operation {
  Collective collective = Collective::all_reduce;
  const float* send = nullptr;
  float* recv = nullptr;
  std::size_t count = 0;
  int root = 0;  // broadcast: it sends from `send`, the others receive into `recv`
};

class Library {
 public:
  virtual ~Library() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool supports(Collective collective) const = 0;

  /// All ranks allocate the same sizes in the same order.
  virtual void* allocate(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    return std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  }
  virtual void deallocate(void* memory) { std::free(memory); }

  /// Called outside of the timing before a run of operations of this size, for libraries that bind buffers ahead.
  virtual void prepare(const Operation&) {}

  /// Blocks until this rank is done. send_recv: a message to the partner (rank xor 1) and one back.
  virtual void run(const Operation& operation) = 0;
};

/// Ends this process, and with it the run.
[[noreturn]] inline void give_up(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

}  // namespace peers
