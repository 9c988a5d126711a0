#include "meeting.hpp"

#include <fcntl.h>
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "library.hpp"

namespace peers {

struct Meeting::Page {
  alignas(64) std::atomic<std::uint32_t> arrived;     // ranks in the barrier; the last one resets it
  alignas(64) std::atomic<std::uint32_t> generation;  // of the barrier; written by the last to arrive
  alignas(64) std::atomic<std::uint32_t> ball;        // written by ranks 0 and 1 in turn
  alignas(64) double values[kMaxRanks];               // between two barriers
};

Meeting::Meeting(int rank, int size, std::vector<int> cores) : rank_(rank), size_(size), cores_(std::move(cores)) {
  const char* path = std::getenv("BENCH_MEETING");
  if (path == nullptr) give_up("BENCH_MEETING is not set; bench/run.py starts this");
  if (size > kMaxRanks) give_up("too many ranks");
  const int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(Page)) != 0) give_up(std::string("cannot open ") + path);
  void* memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (memory == MAP_FAILED) give_up(std::string("cannot map ") + path);
  page_ = static_cast<Page*>(memory);
}

void Meeting::meet(Wait how) {
  const std::uint32_t generation = page_->generation.load(std::memory_order_acquire);
  if (page_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(size_)) {
    page_->arrived.store(0, std::memory_order_relaxed);
    page_->generation.store(generation + 1, std::memory_order_release);
    return;
  }
  while (page_->generation.load(std::memory_order_acquire) == generation) {
    if (how == Wait::spin) {
      _mm_pause();
    } else if (how == Wait::yield) {
      sched_yield();
    } else {
      usleep(200);
    }
  }
}

double Meeting::largest(double value) {
  page_->values[rank_] = value;
  barrier();
  const double result = *std::max_element(page_->values, page_->values + size_);
  barrier();
  return result;
}

double Meeting::first(double value) {
  page_->values[rank_] = value;
  barrier();
  const double result = page_->values[0];
  barrier();
  return result;
}

double Meeting::exchange(std::uint32_t rounds) {
  std::atomic<std::uint32_t>& ball = page_->ball;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < rounds; ++i) {
    const std::uint32_t mine = 2 * i + static_cast<std::uint32_t>(rank_);
    while (ball.load(std::memory_order_acquire) != mine) {
    }
    ball.store(mine + 1, std::memory_order_release);
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / rounds / 2;
}

double Meeting::stamp() {
  if (cores_.size() < 2 || size_ < 2) return 0;
  constexpr std::uint32_t kRounds = 500;
  constexpr int kTries = 5;
  cpu_set_t before;
  CPU_ZERO(&before);
  sched_getaffinity(0, sizeof before, &before);
  // The ranks that do not take part sleep, so as not to share the cores with those that do.
  const Wait how = !is_crowded() ? Wait::spin : rank_ < 2 ? Wait::yield : Wait::sleep;
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    if (rank_ == 0) page_->ball.store(0, std::memory_order_relaxed);
    meet(how);
    if (rank_ < 2) {
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(static_cast<std::size_t>(cores_[static_cast<std::size_t>(rank_)]), &own);
      sched_setaffinity(0, sizeof own, &own);
      best = std::min(best, exchange(kRounds));
      sched_setaffinity(0, sizeof before, &before);
    }
    meet(how);
  }
  return first(best);
}

void pin_to_core(const std::vector<int>& cores, int size) {
  if (static_cast<std::size_t>(size) > cores.size()) return;
  for (const char* name : {"TUTTI_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "BENCH_RANK"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(static_cast<std::size_t>(cores[static_cast<std::size_t>(std::atoi(text))]), &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

}  // namespace peers
