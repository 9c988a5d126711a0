// Two ranks that time messages between each other. One leads: it says what comes next, sends it, and stops the clock at
// the other's acknowledgement of a byte; the other follows. Half of what a small message and its acknowledgement take
// is one way.
#pragma once

#include "cli/topology/measure_run.hpp"

namespace tutti::cli {

class PairMeasurement {
 public:
  PairMeasurement(Communicator& communicator, int peer, std::vector<std::byte>& buffer)
      : communicator_(communicator), peer_(peer), buffer_(buffer) {}

  /// Messages from this rank to the peer, of the sizes that fit into `seconds`; at least two sizes.
  Result<PairTimes> lead(const std::vector<std::uint64_t>& sizes, double seconds);
  /// The other end of lead().
  Status follow();

 private:
  /// What the leader announces; no repeats: the end.
  struct Batch {
    std::uint64_t bytes = 0;
    std::int32_t repeats = 0;
    std::int32_t chunks = 0;  // messages in a row, acknowledged together
  };

  /// Sends or receives the chunks of a batch, all issued at once.
  Status in_a_row(const Batch& batch, bool sends);
  /// The median time from the first byte to the acknowledgement.
  Result<double> round_trip(const Batch& batch);
  Status answer(const Batch& batch);
  /// Times of a size, warmed up by the first of them; as often as `seconds` allow.
  Result<double> one_way(std::uint64_t bytes, double seconds);
  Status time_chunks(PairTimes& pair, double seconds);

  Communicator& communicator_;
  int peer_;
  std::vector<std::byte>& buffer_;
  double back_ = 0;  // seconds of an acknowledgement
};

}  // namespace tutti::cli
