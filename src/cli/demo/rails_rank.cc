#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "cli/demo/rails.hpp"
#include "tutti/communicator.hpp"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kElements = 256 << 10;
constexpr std::size_t kStreamed = 8 << 20;
constexpr std::size_t kGradients = 64 << 10;
constexpr int kLayers = 3;
constexpr std::chrono::milliseconds kComputes{20};
constexpr double kTimeout = 20.0;  // seconds

void report(const Communicator& communicator) {
  if (communicator.rank() != 0) return;
  const std::string line = fmt::format("{}\n", Clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  (void)!::write(STDOUT_FILENO, line.data(), line.size());
}

/// All-reduces, two under way at a time, whose values change from one to the next. The last element is not data: rank 0
/// asks with it to stop.
class AllReduceLoop {
 public:
  explicit AllReduceLoop(Communicator& communicator) : communicator_(communicator), input_(kElements), sum_(kElements) {
    const int ranks = communicator.size();
    for (std::size_t i = 0; i < kData; ++i) {
      const int value = 1 + static_cast<int>(i % 97);  // sums of small integers are exact
      input_[i] = static_cast<float>((communicator.rank() + 1) * value);
      sum_[i] = static_cast<float>(ranks * (ranks + 1) / 2 * value);
    }
  }

  Status run(double seconds) {
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    Status done = start(slots_[0]);
    for (std::size_t number = 0; done && !stop_; ++number) {
      done = start(slots_[(number + 1) % 2]);
      if (done) done = finish(slots_[number % 2]);
      if (done && stop_) done = finish(slots_[(number + 1) % 2]);
    }
    return done;
  }

 private:
  static constexpr std::size_t kData = kElements - 1;

  struct RunningAllReduce {
    std::vector<float> send = std::vector<float>(kElements);
    std::vector<float> recv = std::vector<float>(kElements);
    float factor = 0;
    Work work;
  };

  Status start(RunningAllReduce& slot) {
    slot.factor = static_cast<float>(1 + started_++ % 7);
    for (std::size_t i = 0; i < kData; ++i) slot.send[i] = slot.factor * input_[i];
    slot.send[kData] = communicator_.rank() == 0 && Clock::now() >= end_ ? 1.0F : 0.0F;
    auto work =
        communicator_.all_reduce_async(slot.send.data(), slot.recv.data(), kElements, DataType::float32, Operator::sum);
    if (!work) return tl::unexpected(work.error());
    slot.work = *work;
    return {};
  }

  Status finish(RunningAllReduce& slot) {
    if (auto done = slot.work.wait(); !done) return done;
    report(communicator_);
    stop_ = stop_ || slot.recv[kData] != 0.0F;
    for (std::size_t i = 0; i < kData; ++i)
      if (slot.recv[i] != slot.factor * sum_[i])
        return fail(ErrorCode::system, fmt::format("element {} of an all-reduce is wrong", i));
    return {};
  }

  Communicator& communicator_;
  std::vector<float> input_;
  std::vector<float> sum_;
  RunningAllReduce slots_[2];
  Clock::time_point end_;
  std::uint64_t started_ = 0;
  bool stop_ = false;
};

Status stream(Communicator& communicator, double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::uint8_t> buffer(kStreamed);
  while (buffer[0] == 0) {
    if (communicator.rank() == 0 && Clock::now() >= end) buffer[0] = 1;
    const Status done = communicator.broadcast(buffer.data(), buffer.data(), buffer.size(), DataType::uint8, 0);
    if (!done) return done;
    report(communicator);
  }
  return {};
}

Status train(Communicator& communicator, double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<float> gradients(kGradients), sums(kGradients);
  for (int stop = 0; stop == 0;) {
    std::this_thread::sleep_for(kComputes);
    for (int layer = 0; layer < kLayers; ++layer) {
      const Status done =
          communicator.all_reduce(gradients.data(), sums.data(), kGradients, DataType::float32, Operator::sum);
      if (!done) return done;
    }
    const int late = Clock::now() >= end ? 1 : 0;
    if (const Status done = communicator.all_reduce(&late, &stop, 1, DataType::int32, Operator::max); !done)
      return done;
  }
  return {};
}

int run_rank(const std::function<Status(Communicator&)>& work) {
  Options options = Options::from_environment();
  options.timeout = kTimeout;
  auto communicator = Communicator::create_from_environment(options);
  const Status done = communicator ? work(*communicator) : tl::unexpected(communicator.error());
  if (!done) fmt::print(stderr, "{}\n", done.error().to_string());
  return done ? 0 : 1;
}

}  // namespace

int run_rails_rank(double seconds) {
  return run_rank([seconds](Communicator& communicator) { return AllReduceLoop(communicator).run(seconds); });
}

int run_stream_rank(double seconds) {
  return run_rank([seconds](Communicator& communicator) { return stream(communicator, seconds); });
}

int run_training_rank(double seconds) {
  return run_rank([seconds](Communicator& communicator) { return train(communicator, seconds); });
}

}  // namespace tutti::cli
