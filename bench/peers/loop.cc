#include "loop.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <string_view>

#include "data.hpp"

namespace peers {

namespace {

constexpr std::array<std::string_view, 6> kNames = {"all_reduce", "all_gather", "reduce_scatter",
                                                    "broadcast",  "all_to_all", "send_recv"};
constexpr std::size_t kBatchBytes = 256 << 10;  // send buffers of a batch together stay in a core's own cache
constexpr std::size_t kBatchLimit = 64;
constexpr int kRepetitions = 5;

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// The buffers of one collective at one size, and what to do with them.
class Point {
 public:
  Point(Library& library, Meeting& meeting, Collective collective, std::size_t bytes)
      : library_(library), meeting_(meeting), collective_(collective) {
    shape_ = shape_of(collective, bytes, library.size());
    batch_ = std::clamp<std::size_t>(kBatchBytes / bytes, 1, kBatchLimit);
    constexpr std::size_t kLine = 64 / sizeof(float);
    stride_ = (shape_.send + kLine - 1) / kLine * kLine;
    send_ = static_cast<float*>(library.allocate(batch_ * stride_ * sizeof(float)));
    recv_ = static_cast<float*>(library.allocate(shape_.recv * sizeof(float)));
  }
  ~Point() {
    library_.deallocate(recv_);
    library_.deallocate(send_);
  }
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;

  /// Microseconds per operation: the minimum over repetitions.
  double measure(double point_ms) {
    spoil(recv_, shape_.recv);
    library_.prepare(operation(0));
    fit_batch(point_ms);
    const auto start = Clock::now();
    run_batch();
    const double batch_ms = std::max(1e-3, meeting_.first(microseconds_since(start) / 1000));
    const int repetitions = static_cast<int>(std::clamp(point_ms / batch_ms, 2.0, double{kRepetitions}));
    const auto batches = static_cast<int>(std::max(1.0, point_ms / repetitions / batch_ms));
    double best = 1e300;
    for (int r = 0; r < repetitions; ++r) {
      double sum = 0;
      for (int b = 0; b < batches; ++b) sum += run_batch();
      best = std::min(best, meeting_.largest(sum) / batches / static_cast<double>(batch_));
    }
    verify();
    return collective_ == Collective::send_recv ? best / 2 : best;
  }

 private:
  Operation operation(std::size_t index) const {
    const int root = static_cast<int>(index % static_cast<std::size_t>(library_.size()));
    return {collective_, send_ + index * stride_, recv_, shape_.count, root};
  }

  /// Where operations are slow, a batch is no more of them than fit a repetition.
  void fit_batch(double point_ms) {
    const std::size_t most = batch_;
    batch_ = 1;
    run_batch();
    const double fitting = point_ms * 1000 / kRepetitions / meeting_.first(run_batch());
    batch_ = static_cast<std::size_t>(std::clamp(fitting, 1.0, static_cast<double>(most)));
  }

  /// Microseconds of the whole batch, on this rank.
  double run_batch() {
    ++salt_;
    for (std::size_t i = 0; i < batch_; ++i) fill(send_ + i * stride_, shape_.send, library_.rank(), salt_ + i);
    meeting_.barrier();
    const auto start = Clock::now();
    for (std::size_t i = 0; i < batch_; ++i) library_.run(operation(i));
    return microseconds_since(start);
  }

  void verify() {
    spoil(recv_, shape_.recv);
    run_batch();
    for (std::size_t back = 1; back <= std::min<std::size_t>(batch_, 2); ++back) {
      const Operation last = operation(batch_ - back);
      if (collective_ == Collective::broadcast && last.root == library_.rank()) continue;
      const std::size_t wrong = find_wrong(last, shape_, library_.rank(), library_.size(), salt_ + batch_ - back);
      if (wrong < shape_.recv) give_up("wrong result of " + std::string(kNames[static_cast<std::size_t>(collective_)]));
      break;
    }
    meeting_.barrier();
  }

  Library& library_;
  Meeting& meeting_;
  Collective collective_;
  Shape shape_;
  std::size_t batch_;
  std::size_t stride_;
  float* send_;
  float* recv_;
  std::size_t salt_ = 0;
};

struct Measured {
  double stamp_ns;
  double us;
};

/// Measures again where the machine changed its state meanwhile, as the stamps before and after tell.
Measured measure_steadily(Library& library, Meeting& meeting, Collective collective, std::size_t bytes,
                          double point_ms) {
  constexpr int kTries = 3;
  constexpr double kSame = 1.5;
  Measured measured{};
  double before = meeting.stamp();
  for (int i = 0; i < kTries; ++i) {
    const double us = Point(library, meeting, collective, bytes).measure(point_ms);
    measured = {before, us};
    const double after = meeting.stamp();
    if (after < before * kSame && before < after * kSame) break;
    before = after;
  }
  return measured;
}

std::vector<std::size_t> sizes_of(const Options& options) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = options.smallest; bytes < options.largest; bytes *= options.factor) sizes.push_back(bytes);
  sizes.push_back(options.largest);
  return sizes;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

Collective collective_named(const std::string& name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) give_up("unknown collective '" + name + "'");
  return static_cast<Collective>(found - kNames.begin());
}

}  // namespace

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string text = argv[i + 1];
    if (name == "--collectives") {
      for (const std::string& part : split(text)) options.collectives.push_back(collective_named(part));
    } else if (name == "--cores") {
      for (const std::string& part : split(text)) options.cores.push_back(std::stoi(part));
    } else if (name == "--smallest") {
      options.smallest = std::stoull(text);
    } else if (name == "--largest") {
      options.largest = std::stoull(text);
    } else if (name == "--factor") {
      options.factor = std::stoull(text);
    } else if (name == "--point-ms") {
      options.point_ms = std::stod(text);
    } else if (name == "--ranks") {
      options.ranks = std::stoi(text);
    } else if (name == "--pin") {
      options.pin = text == "1";
    } else if (name == "--memory") {
      options.memory = text;
    } else if (name == "--label") {
      options.label = text;
    } else {
      give_up("unknown option '" + name + "'");
    }
  }
  if (options.pin) pin_to_core(options.cores, options.ranks);
  return options;
}

void run_loop(Library& library, const std::string& name, const Options& options) {
  Meeting meeting(library.rank(), library.size(), options.cores);
  const std::string& label = options.label.empty() ? name : options.label;
  for (Collective collective : options.collectives) {
    if (!library.supports(collective)) continue;
    for (std::size_t bytes : sizes_of(options)) {
      if (shape_of(collective, bytes, library.size()).count == 0) continue;
      const auto [stamp, us] = measure_steadily(library, meeting, collective, bytes, options.point_ms);
      if (library.rank() != 0) continue;
      std::printf(
          "{\"library\": \"%s\", \"collective\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"memory\": \"%s\", "
          "\"us\": %.4f, \"stamp_ns\": %.1f}\n",
          label.c_str(), kNames[static_cast<std::size_t>(collective)].data(), library.size(), bytes,
          options.memory.c_str(), us, stamp);
      std::fflush(stdout);
    }
  }
  meeting.barrier();
}

}  // namespace peers
