// A simulated kernel: processes with threads and descriptors, a clock that only it moves, and a scheduler that draws
// from a seed. The code under test runs on it unchanged: libc.cc defines the C library's functions that wait, take the
// time, or touch a descriptor, and passes them on to here while a simulated thread runs.
//
// Threads run one at a time. Each call of theirs takes a little time, and may cost them the processor, by chance. Time
// passes otherwise only when no thread can run: then it goes on to the next event.
//
// One real thread, no locks.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "fiber.hpp"

namespace tutti::simulated {

using Time = std::int64_t;  // nanoseconds
constexpr Time kForever = INT64_MAX;
constexpr Time kMicrosecond = 1000;
constexpr Time kMillisecond = 1000 * kMicrosecond;
constexpr Time kSecond = 1000 * kMillisecond;

class Epoll;
struct Process;
struct Thread;

/// Draws from a seed. SplitMix64: its state is small, and quick to set.
class Random {
 public:
  using result_type = std::uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT64_MAX; }

  explicit Random(std::uint64_t seed) : state_(seed) {}

  result_type operator()() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  bool chance(double probability) { return static_cast<double>((*this)() >> 11) < probability * 0x1p53; }
  /// Both ends are included.
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>((*this)() % static_cast<std::uint64_t>(most - least + 1));
  }

 private:
  std::uint64_t state_;
};

/// What a descriptor stands for. Its owner is the process that opened it.
class File {
 public:
  virtual ~File() = default;
  /// Returns the events of epoll that are there now.
  virtual std::uint32_t ready() const = 0;
  /// The last descriptor is closed.
  virtual void closed() {}

  Process* owner = nullptr;
  std::vector<Thread*> sleepers;
  std::vector<Epoll*> watchers;
};

class Epoll final : public File {
 public:
  struct Entry {
    std::weak_ptr<File> file;
    std::uint32_t events;
    std::uint64_t data;
  };
  std::uint32_t ready() const override;
  void closed() override;

  std::map<int, Entry> entries;  // by descriptor
};

class Event final : public File {
 public:
  std::uint32_t ready() const override;
  std::uint64_t count = 0;
};

/// The end of a process, as pidfd_open() shows it.
class ProcessEndFile final : public File {
 public:
  explicit ProcessEndFile(const Process& process) : process_(process) {}
  std::uint32_t ready() const override;

 private:
  const Process& process_;
};

struct Process {
  int pid = 0;
  int host = 0;
  bool dead = false;
  bool stopped = false;
  int threads = 0;      // that have not ended
  int descriptors = 0;  // open
  int descriptor_limit = 1024;
  int thread_failures = 0;  // so many threads are refused, the next ones
  bool lacked_threads = false;
  bool memory_fails = false;  // shared memory is refused without a descriptor, too
  Time clock_ahead = 0;       // how far its clock has jumped
  std::vector<std::weak_ptr<ProcessEndFile>> watchers;
};

struct Thread {
  enum class State : std::uint8_t { runnable, blocked, ended };

  Process* process = nullptr;
  std::uint64_t number = 0;
  std::string name;
  std::unique_ptr<Fiber> fiber;
  State state = State::runnable;
  const char* waits_in = "";       // for messages
  const void* waits_on = nullptr;  // a mutex, condition variable or futex
  Time deadline = kForever;
  std::uint64_t waits = 0;  // numbers them, so that an old deadline wakes nobody
  bool timed_out = false;
  int locks_held = 0;
  bool detached = false;
  Thread* joiner = nullptr;
};

class Kernel {
 public:
  explicit Kernel(std::uint64_t seed);

  /// The one that runs in this program; null while no simulated thread runs.
  static Kernel* running() { return current_ == nullptr ? nullptr : instance_; }
  static Kernel& get() { return *instance_; }
  static Thread& thread() { return *current_; }
  static Process& process() { return *current_->process; }

  Process& start_process(int host, const std::string& name, std::function<void()> body);
  Thread& start_thread(Process& process, const std::string& name, std::function<void()> body);
  Thread* find_thread(unsigned long self);

  /// As SIGKILL: none of its threads runs again, and its descriptors are closed.
  void kill(Process& process);
  /// As SIGSTOP and SIGCONT.
  void stop(Process& process) { process.stopped = true; }
  void go_on(Process& process) { process.stopped = false; }
  /// Whether none of its threads holds a lock. Processes share the locks of static variables here, which real ones do
  /// not: one that stops or ends for good must hold none.
  bool holds_no_lock(const Process& process) const;

  /// Runs all until `finished` is true. Returns false if nothing can happen any more before that, or at `latest`.
  bool run(const std::function<bool()>& finished, Time latest);

  Time now() const { return now_; }
  /// Calls `what` at the time, not from within a thread.
  void at(Time time, std::function<void()> what);
  void after(Time delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  // Of the running thread:
  /// Takes so much time; others may run meanwhile.
  void spend(Time cost);
  /// Waits until woken. Returns false at the deadline.
  bool block(const char* in, Time deadline, const void* on = nullptr);
  /// Sleeps until one of the files changes, or the deadline.
  bool block_on(const char* in, const std::vector<File*>& files, Time deadline);

  void wake(Thread& thread);
  /// Wakes those who wait on an address; at most `most`. Returns how many.
  int wake_waiting(const void* on, int most);
  /// A file has become ready for something.
  void notify(File& file);

  /// Returns -1 if the process has no descriptor left.
  int open(std::shared_ptr<File> file);
  /// Returns null if there is none.
  std::shared_ptr<File> find(int descriptor) const;
  template <typename Kind>
  std::shared_ptr<Kind> find_as(int descriptor) const {
    return std::dynamic_pointer_cast<Kind>(find(descriptor));
  }
  bool close(int descriptor);
  static bool is_simulated(int descriptor) { return descriptor >= kFirstDescriptor; }

  Random& random() { return random_; }

  /// Of all that was scheduled: two runs of a seed must have the same.
  std::uint64_t digest() const { return digest_; }
  void fail(const std::string& what);
  const std::string& failure() const { return failure_; }
  std::string describe_threads() const;
  const std::list<Process>& processes() const { return processes_; }

  double preemption = 0.02;  // the chance to lose the processor at a call
  bool traces = false;
  void trace(const std::string& what) const;

 private:
  static constexpr int kFirstDescriptor = 1 << 20;

  struct Scheduled {
    Time time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator>(const Scheduled& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  void run_due();
  Thread* choose();
  void mix(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3ULL; }

  static Kernel* instance_;
  static Thread* current_;

  Time now_ = 1000 * kSecond;
  Random random_;
  std::list<Process> processes_;
  std::list<Thread> threads_;
  std::vector<Thread*> runnable_;
  std::priority_queue<Scheduled, std::vector<Scheduled>, std::greater<>> scheduled_;
  std::uint64_t order_ = 0;
  std::vector<std::shared_ptr<File>> files_;  // by descriptor; numbers are not given out again
  std::uint64_t digest_ = 0xcbf29ce484222325ULL;
  std::string failure_;
};

}  // namespace tutti::simulated
