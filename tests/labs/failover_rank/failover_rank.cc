// One rank of a job whose network ports fail. It runs collectives, holds every result against what it must be, bit by
// bit, and writes to --log a line for each operation once it is done:
//   END BYTES DURATION      monotonic time and duration in nanoseconds, bytes of the buffer
// Exits with 1 and says why when an operation fails or a result is wrong. Rank 0 decides when to stop; all hear of it
// every few operations. With --pause-ms it behaves like a training job: after every operation the ranks exchange four
// bytes, which say whether to stop, and then call nothing for a while. With --churn the buffers are allocated for each
// operation and freed after it, beside others that come and go.
#include <sys/stat.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"
#include "values.hpp"

namespace tutti::labs {
namespace {

enum Collective { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send_recv, kCollectives, mixed };
constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                  "broadcast",  "send_recv",      "?",          "mixed"};

struct Arguments {
  std::string collective = "mixed";
  std::size_t bytes = 1 << 20;
  std::size_t depth = 1;
  double seconds = 10;
  std::uint64_t operations = 0;
  std::int64_t compute_us = 0;
  double pause_ms = 0;
  bool churn = false;
  double timeout = 20;
  std::string stop_file;
  std::string log;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "failover_rank: %s\n", why.c_str());
  std::fflush(nullptr);
  std::_Exit(1);  // the other ranks hear of it
}

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

/// As a rank whose work is done by a GPU.
void sleep_until(std::int64_t end) {
  const timespec time{end / 1000000000, end % 1000000000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
  }
}

Collective parse_collective(const std::string& text) {
  for (int i = 0; i <= mixed; ++i)
    if (text == kNames[i] && i != kCollectives) return static_cast<Collective>(i);
  give_up("no collective '" + text + "'");
}

/// Zeroed floats that peers of the host can map.
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) {
    Result<void*> memory = allocate(std::max<std::size_t>(count, 1) * sizeof(float));
    if (!memory) give_up(memory.error().to_string());
    memory_.reset(static_cast<float*>(*memory));
  }
  std::span<float> span() const { return {memory_.get(), count_}; }

 private:
  struct Free {
    void operator()(float* memory) const {
      if (Status freed = deallocate(memory); !freed) give_up(freed.error().to_string());
    }
  };
  std::size_t count_;
  std::unique_ptr<float, Free> memory_;
};

/// One operation under way, with its buffers.
class Operation {
 public:
  Operation(Communicator& communicator, const Arguments& arguments)
      : communicator_(communicator), chosen_(parse_collective(arguments.collective)), churn_(arguments.churn) {
    const auto size = static_cast<std::size_t>(communicator.size());
    block_ = std::max<std::size_t>(arguments.bytes / sizeof(float) / size, 1);
    own_send_.resize(block_ * size);
    own_recv_.resize(block_ * size);
    send_ = own_send_;
    recv_ = own_recv_;
  }

  void start(std::uint64_t number);
  /// Waits, and verifies.
  void finish();
  std::size_t bytes() const { return count_ * sizeof(float); }
  std::int64_t begun() const { return begun_; }
  bool under_way() const { return !works_.empty(); }

 private:
  void choose();
  void allocate_anew();
  void give();
  void take(Result<Work> work);
  void verify() const;
  void expect(std::size_t offset, std::size_t count, int begin, int end, std::size_t first) const;
  [[noreturn]] void fail(const std::string& why) const {
    give_up("rank " + std::to_string(communicator_.rank()) + ", operation " + std::to_string(number_) + ", " +
            kNames[collective_] + " of " + std::to_string(bytes()) + " bytes: " + why);
  }

  Communicator& communicator_;
  Collective chosen_;
  bool churn_;
  Collective collective_ = all_reduce;
  std::size_t block_ = 0;  // the most elements per rank
  std::size_t share_ = 0;  // elements per rank, of those that have blocks
  std::size_t count_ = 0;  // of all
  std::uint64_t number_ = 0;
  std::int64_t begun_ = 0;
  std::vector<float> own_send_;
  std::vector<float> own_recv_;
  std::vector<Buffer> buffers_;  // with --churn: for sending, for receiving, and others
  std::span<float> send_;
  std::span<float> recv_;
  std::vector<Work> works_;
};

/// `mixed` draws a collective and a size, small ones as often as large.
void Operation::choose() {
  collective_ = chosen_;
  share_ = block_;
  if (chosen_ == mixed) {
    collective_ = static_cast<Collective>(drawn(number_, 1) % kCollectives);
    share_ = std::max<std::size_t>(block_ >> drawn(number_, 2) % 16, 1);
    share_ -= drawn(number_, 3) % std::max<std::size_t>(share_ / 4, 1);
  }
  count_ = share_ * static_cast<std::size_t>(communicator_.size());
}

void Operation::take(Result<Work> work) {
  if (!work) fail(work.error().to_string());
  works_.push_back(std::move(*work));
}

void Operation::give() {
  const int size = communicator_.size();
  const int rank = communicator_.rank();
  const auto type = DataType::float32;
  const auto op = Operator::sum;
  const float* const send = send_.data();
  float* const recv = recv_.data();
  switch (collective_) {
    case all_reduce:
      return take(communicator_.all_reduce_async(send, recv, count_, type, op));
    case reduce_scatter:
      return take(communicator_.reduce_scatter_async(send, recv, share_, type, op));
    case all_gather:
      return take(communicator_.all_gather_async(send, recv, share_, type));
    case all_to_all:
      return take(communicator_.all_to_all_async(send, recv, share_, type));
    case broadcast:
      return take(communicator_.broadcast_async(send, recv, count_, type, static_cast<int>(number_ % size)));
    default:
      take(communicator_.send_async(send, count_, type, (rank + 1) % size));
      take(communicator_.recv_async(recv, count_, type, (rank + size - 1) % size));
  }
}

/// Replaces the buffers, and up to three that nobody uses.
void Operation::allocate_anew() {
  buffers_.clear();
  for (std::uint64_t i = 0; i < 2 + drawn(number_, 4) % 4; ++i) buffers_.emplace_back(count_);
  send_ = buffers_[0].span();
  recv_ = buffers_[1].span();
}

void Operation::start(std::uint64_t number) {
  number_ = number;
  choose();
  if (churn_) allocate_anew();
  fill(send_.first(count_), communicator_.rank(), number_);
  begun_ = now();
  give();
}

void Operation::finish() {
  for (Work& work : works_)
    if (Status done = work.wait(); !done) fail(done.error().to_string());
  works_.clear();
  verify();
}

/// recv[offset, offset + count) is what ranks begin to end - 1 gave from `first` on, summed.
void Operation::expect(std::size_t offset, std::size_t count, int begin, int end, std::size_t first) const {
  const std::size_t wrong = first_wrong(recv_.subspan(offset, count), begin, end, number_, first);
  if (wrong != count) fail("wrong at element " + std::to_string(offset + wrong));
}

void Operation::verify() const {
  const int size = communicator_.size();
  const int rank = communicator_.rank();
  const std::size_t mine = static_cast<std::size_t>(rank) * share_;
  const int root = static_cast<int>(number_ % size);
  const int left = (rank + size - 1) % size;
  switch (collective_) {
    case all_reduce:
      return expect(0, count_, 0, size, 0);
    case reduce_scatter:
      return expect(0, share_, 0, size, mine);
    case all_gather:
    case all_to_all:
      for (int peer = 0; peer < size; ++peer)
        expect(static_cast<std::size_t>(peer) * share_, share_, peer, peer + 1, collective_ == all_gather ? 0 : mine);
      return;
    case broadcast:
      return expect(0, count_, root, root + 1, 0);
    default:
      return expect(0, count_, left, left + 1, 0);
  }
}

class Log {
 public:
  explicit Log(const std::string& path) {
    if (path.empty()) return;
    file_.reset(std::fopen(path.c_str(), "w"));
    if (!file_) give_up("cannot write " + path);
  }
  /// At once: the harness reads along.
  void add(std::int64_t begun, std::size_t bytes) {
    if (!file_) return;
    const std::int64_t end = now();
    std::fprintf(file_.get(), "%lld %zu %lld\n", static_cast<long long>(end), bytes,
                 static_cast<long long>(end - begun));
    std::fflush(file_.get());
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

/// What rank 0 wants, told to all by an operation among the others, and heard a round later: nothing waits for it.
class Agreement {
 public:
  Agreement(Communicator& communicator, const Arguments& arguments)
      : communicator_(communicator), arguments_(arguments), start_(now()) {}

  bool stop(std::uint64_t done) {
    if (arguments_.pause_ms > 0) return stop_now(done);
    if (under_way_)
      if (Status told = work_.wait(); !told) fail(told.error());
    if (stop_ != 0) return true;
    stop_ = communicator_.rank() == 0 && wants_to_stop(done);
    Result<Work> work = communicator_.all_reduce_async(&stop_, &stop_, 1, DataType::int32, Operator::max);
    if (!work) fail(work.error());
    work_ = std::move(*work);
    under_way_ = true;
    return false;
  }

 private:
  /// Nothing is left under way in a pause.
  bool stop_now(std::uint64_t done) {
    stop_ = communicator_.rank() == 0 && wants_to_stop(done);
    const Status told = communicator_.all_reduce(&stop_, &stop_, 1, DataType::int32, Operator::max);
    if (!told) fail(told.error());
    return stop_ != 0;
  }
  bool wants_to_stop(std::uint64_t done) const {
    struct stat file {};
    return now() - start_ > static_cast<std::int64_t>(arguments_.seconds * 1e9) ||
           (arguments_.operations != 0 && done >= arguments_.operations) ||
           (!arguments_.stop_file.empty() && ::stat(arguments_.stop_file.c_str(), &file) == 0);
  }
  [[noreturn]] void fail(const Error& error) const {
    give_up("rank " + std::to_string(communicator_.rank()) + ", whether to stop: " + error.to_string());
  }

  Communicator& communicator_;
  const Arguments& arguments_;
  std::int64_t start_;
  std::int32_t stop_ = 0;
  bool under_way_ = false;
  Work work_;
};

/// Returns how many operations were run.
std::uint64_t run_operations(Communicator& communicator, const Arguments& arguments) {
  const bool pauses = arguments.pause_ms > 0;
  const std::uint64_t round = pauses ? 1 : 16;
  const std::size_t depth = std::max<std::size_t>(arguments.depth, 1);
  std::vector<Operation> slots;
  slots.reserve(depth);
  for (std::size_t i = 0; i < depth; ++i) slots.emplace_back(communicator, arguments);
  Log log(arguments.log);
  const auto finish = [&](Operation& operation) {
    if (!operation.under_way()) return;
    operation.finish();
    log.add(operation.begun(), operation.bytes());
  };
  Agreement agreement(communicator, arguments);
  std::uint64_t number = 0;
  for (; number % round != 0 || !agreement.stop(number); ++number) {
    Operation& operation = slots[number % slots.size()];
    finish(operation);
    operation.start(number);
    if (arguments.compute_us != 0) sleep_until(now() + arguments.compute_us * 1000);
    if (slots.size() == 1 || pauses) finish(operation);
    if (pauses) sleep_until(now() + static_cast<std::int64_t>(arguments.pause_ms * 1e6));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) finish(slots[(number + i) % slots.size()]);
  return number;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Runs collectives while ports fail, and holds every result against what it must be.");
  app.add_option("--collective", arguments.collective,
                 "all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send_recv, mixed");
  app.add_option("--bytes", arguments.bytes, "of the buffer; mixed: at most");
  app.add_option("--depth", arguments.depth, "operations under way at a time");
  app.add_option("--seconds", arguments.seconds, "to run at most");
  app.add_option("--operations", arguments.operations,
                 "after which to stop, some more for all to hear of it; 0: no limit");
  app.add_option("--stop-file", arguments.stop_file, "stop once it exists");
  app.add_option("--compute-us", arguments.compute_us, "sleep so long while an operation is under way");
  app.add_option("--pause-ms", arguments.pause_ms, "call nothing for so long after each operation");
  app.add_flag("--churn", arguments.churn, "allocate the buffers anew for each operation");
  app.add_option("--timeout", arguments.timeout, "seconds until an operation that waits fails");
  app.add_option("--log", arguments.log, "a line for each operation: end and duration in ns, bytes");
  CLI11_PARSE(app, argc, argv);
  Options options = Options::from_environment();
  options.timeout = arguments.timeout;
  Result<Communicator> communicator = Communicator::create_from_environment(options);
  if (!communicator) give_up(communicator.error().to_string());
  const std::uint64_t done = run_operations(*communicator, arguments);
  std::printf("rank %d of %d: %llu operations, all results right\n", communicator->rank(), communicator->size(),
              static_cast<unsigned long long>(done));
  return 0;
}

}  // namespace
}  // namespace tutti::labs

int main(int argc, char** argv) { return tutti::labs::run(argc, argv); }
