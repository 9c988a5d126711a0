// Where the processes of a start-up bench tell when they got where: a file in memory, named by BENCH_START and made
// zeroed by bench/startup.py, with a place for each process in the order in which they come. The same for all
// libraries; nothing of it is timed but the wait at the gate.
//
// With BENCH_GATE=1 a process waits until all have been started, so that what follows is timed apart from the launch.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace startup {

/// Nanoseconds; by default of the clock that all processes of a machine, and Python's time.monotonic_ns(), share.
inline std::int64_t now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * std::int64_t{1000000000} + time.tv_nsec;
}

[[noreturn]] inline void give_up(const std::string& why) {
  std::fprintf(stderr, "startup: %s\n", why.c_str());
  std::_Exit(1);
}

/// What one process tells. bench/startup.py reads it.
struct Times {
  std::int64_t began = 0;    // main()
  std::int64_t called = 0;   // create, or MPI_Init
  std::int64_t created = 0;  // it returned
  std::int64_t ended = 0;    // the first barrier returned
  std::int64_t cpu = 0;      // nanoseconds of it that all threads have taken from `called` to `ended`
};

class Start {
 public:
  explicit Start(int size) : size_(size), began_(now()) {
    const char* path = std::getenv("BENCH_START");
    if (path == nullptr) give_up("BENCH_START is not set; bench/startup.py starts this");
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) give_up(std::string("cannot open ") + path);
    const std::size_t bytes = sizeof(Page) + static_cast<std::size_t>(size) * sizeof(Times);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED) give_up(std::string("cannot map ") + path);
    page_ = static_cast<Page*>(memory);
    const std::uint32_t place = page_->arrived.fetch_add(1);
    if (place >= static_cast<std::uint32_t>(size)) give_up("more processes came than were expected");
    own_ = reinterpret_cast<Times*>(page_ + 1) + place;
    own_->began = began_;
    if (const char* gate = std::getenv("BENCH_GATE"); gate != nullptr && std::strcmp(gate, "1") == 0) wait(place);
  }

  void call() {
    own_->called = now();
    own_->cpu = -now(CLOCK_PROCESS_CPUTIME_ID);
  }
  void created() { own_->created = now(); }
  void ended() {
    own_->ended = now();
    own_->cpu += now(CLOCK_PROCESS_CPUTIME_ID);
    wait_for_all();
  }

 private:
  struct Page {
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> open;
    std::int64_t opened;  // when
    std::atomic<std::uint32_t> ended;
    std::atomic<std::uint32_t> over;
  };

  // What processes do to end must not keep others from starting. Not for ever: a library may need its processes to move
  // for others to get on.
  void wait_for_all() {
    if (page_->ended.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
      page_->over.store(1);
      syscall(SYS_futex, &page_->over, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
    const timespec limit{10, 0};
    if (page_->over.load() == 0) syscall(SYS_futex, &page_->over, FUTEX_WAIT, 0, &limit, nullptr, 0);
  }

  void wait(std::uint32_t place) {
    if (place + 1 == static_cast<std::uint32_t>(size_)) {
      page_->opened = now();
      page_->open.store(1);
      syscall(SYS_futex, &page_->open, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      return;
    }
    while (page_->open.load() == 0) syscall(SYS_futex, &page_->open, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  }

  int size_;
  std::int64_t began_;
  Page* page_;
  Times* own_;
};

}  // namespace startup
