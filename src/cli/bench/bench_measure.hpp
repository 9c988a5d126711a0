// One rank's part in measuring a collective. All ranks call measure() with the same arguments, in the same order.
//
// Before every timed call its send buffer is rewritten, outside the timing. Small calls are timed in runs: as many
// slots as fit a fixed space are written, then the calls go back to back, each on a slot of its own, so that neither
// the clock nor a barrier weighs on a call of half a microsecond. Unless the number of calls is given, it follows from
// the time they take: the first calls of a size are slower than the rest (a program is chosen and bound, memory is
// touched for the first time, the scheduler may have put two ranks on one core), so that calls are made until they get
// no faster, and then timed for a fifth of a second.
#pragma once

#include <memory>
#include <vector>

#include "cli/bench/bench_case.hpp"
#include "cli/bench/bench_options.hpp"
#include "cli/bench/reference.hpp"
#include "tutti/communicator.hpp"

namespace tutti::cli {

struct Measurement {
  double microseconds = 0.0;
  double algorithm_gbs = 0.0;  // GB is 1e9 bytes
  double bus_gbs = 0.0;
  int iterations = 0;      // timed calls
  std::int64_t wrong = 0;  // elements, over all ranks
};

/// What is measured: one row of the table, in one of its two halves.
struct BenchPoint {
  const BenchCase* bench_case = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  Operator op = Operator::sum;
  int root = 0;
  bool in_place = false;
};

/// Memory for the buffers, ordinary or of tutti::allocate.
class BenchBuffer {
 public:
  static Result<BenchBuffer> create(std::size_t bytes, bool registered);
  std::byte* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory_{nullptr, nullptr};
};

class BenchRank {
 public:
  BenchRank(Communicator& communicator, const BenchOptions& options) : communicator_(communicator), options_(options) {}

  Result<Measurement> measure(const BenchPoint& point);

 private:
  struct Tiles {
    DataType type;
    Operator op;
    std::vector<Tile> inputs;
    std::vector<Tile> reduced;  // one, where the collective reduces
  };
  struct Slots {
    int count = 1;
    std::size_t send_stride = 0;  // bytes from one slot to the next
    std::size_t recv_stride = 0;
  };

  Status prepare(const BenchPoint& point);
  BenchCall call_at(const BenchPoint& point, int slot) const;
  void write_input(const BenchPoint& point, int slot) const;
  Status warm_up(const BenchPoint& point);
  Result<double> time_run(const BenchPoint& point, int calls);
  Result<int> choose_iterations(const BenchPoint& point);
  Result<double> average_time(const BenchPoint& point, int iterations);
  Result<double> over_ranks(std::vector<double> times, const std::vector<int>& weights);
  Result<std::int64_t> count_wrong(const BenchPoint& point);

  Communicator& communicator_;
  const BenchOptions& options_;
  std::unique_ptr<Tiles> tiles_;
  Slots slots_;
  std::size_t send_capacity_ = 0;
  std::size_t recv_capacity_ = 0;
  BenchBuffer send_;
  BenchBuffer recv_;
};

}  // namespace tutti::cli
