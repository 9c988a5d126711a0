// The machine's limit for all_reduce of two ranks: both see all four buffers, each reduces its half into both outputs,
// and nothing else happens but a flag each before and after. Stores go past the cache with memory "streamed".
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>

#include "loop.hpp"

namespace {

using Kernel = void (*)(const float* a, const float* b, float* x, float* y, std::size_t n);

template <bool kStream>
__attribute__((target("avx512f"))) void add_avx512(const float* a, const float* b, float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 16) {
    const __m512 sum = _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i));
    if constexpr (kStream) {
      _mm512_stream_ps(x + i, sum);
      _mm512_stream_ps(y + i, sum);
    } else {
      _mm512_store_ps(x + i, sum);
      _mm512_store_ps(y + i, sum);
    }
  }
}

template <bool kStream>
__attribute__((target("avx2"))) void add_avx2(const float* a, const float* b, float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_load_ps(a + i), _mm256_load_ps(b + i));
    if constexpr (kStream) {
      _mm256_stream_ps(x + i, sum);
      _mm256_stream_ps(y + i, sum);
    } else {
      _mm256_store_ps(x + i, sum);
      _mm256_store_ps(y + i, sum);
    }
  }
}

Kernel find_kernel(bool stream) {
  if (__builtin_cpu_supports("avx512f")) return stream ? add_avx512<true> : add_avx512<false>;
  if (__builtin_cpu_supports("avx2")) return stream ? add_avx2<true> : add_avx2<false>;
  peers::give_up("the limit needs AVX2");
}

class DirectLoop final : public peers::Library {
 public:
  DirectLoop(int rank, bool stream) : rank_(rank), stream_(stream), kernel_(find_kernel(stream)) {
    flags_ = static_cast<Flag*>(map_file("flags", 2 * sizeof(Flag)));
  }

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  bool supports(peers::Collective collective) const override { return collective == peers::Collective::all_reduce; }

  void* allocate(std::size_t bytes) override {
    const std::string number = std::to_string(allocations_++);
    const std::string name = number + "." + std::to_string(rank_);
    void* own = map_file(name, bytes);
    theirs_[own] = {map_file(number + "." + std::to_string(1 - rank_), bytes), bytes, path_of(name)};
    return own;
  }
  void deallocate(void* memory) override {
    const Mapped theirs = theirs_[memory];
    unlink(theirs.own_path.c_str());
    munmap(memory, theirs.bytes);
    munmap(theirs.memory, theirs.bytes);
    theirs_.erase(memory);
  }

  void run(const peers::Operation& op) override {
    meet();
    constexpr std::size_t kLine = 16;
    const std::size_t lines = (op.count + kLine - 1) / kLine;
    const std::size_t from = rank_ == 0 ? 0 : lines / 2 * kLine;
    const std::size_t to = rank_ == 0 ? lines / 2 * kLine : lines * kLine;
    const float* other_send = counterpart(op.send);
    float* other_recv = counterpart(op.recv);
    kernel_(op.send + from, other_send + from, op.recv + from, other_recv + from, to - from);
    if (stream_) _mm_sfence();
    meet();
  }

 private:
  struct alignas(64) Flag {
    std::atomic<std::uint64_t> count;  // its rank writes, the other one polls
  };
  struct Mapped {
    void* memory;
    std::size_t bytes;
    std::string own_path;
  };

  static std::string path_of(const std::string& name) { return std::string(std::getenv("BENCH_MEETING")) + "." + name; }

  static void* map_file(const std::string& name, std::size_t bytes) {
    const std::string path = path_of(name);
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0 || posix_fallocate(descriptor, 0, static_cast<off_t>((bytes + 63) / 64 * 64)) != 0) {
      peers::give_up("cannot make " + path);
    }
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED) peers::give_up("cannot map " + path);
    return memory;
  }

  void meet() {
    const std::uint64_t round = ++rounds_;
    flags_[rank_].count.store(round, std::memory_order_release);
    while (flags_[1 - rank_].count.load(std::memory_order_acquire) < round) {
    }
  }

  float* counterpart(const float* own) const {
    auto after = theirs_.upper_bound(const_cast<float*>(own));
    const auto& [base, theirs] = *--after;
    return reinterpret_cast<float*>(static_cast<std::byte*>(theirs.memory) +
                                    (reinterpret_cast<const std::byte*>(own) - static_cast<const std::byte*>(base)));
  }

  int rank_;
  bool stream_;
  Kernel kernel_;
  Flag* flags_;
  std::uint64_t rounds_ = 0;
  int allocations_ = 0;
  std::map<void*, Mapped> theirs_;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Options options = peers::read_options(argc, argv);
  const char* rank = std::getenv("BENCH_RANK");
  if (rank == nullptr) peers::give_up("BENCH_RANK is not set; bench/run.py starts this");
  DirectLoop library(std::atoi(rank), options.memory == "streamed");
  peers::run_loop(library, "limit", options);
}
