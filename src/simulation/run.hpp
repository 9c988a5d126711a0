// A flat program at work: workers, channels and links in time (simulate.hpp has the model).
//
// Two kinds of things happen: a worker goes on, as far as it can at that time, and a piece comes to a link or to its
// end. A worker that cannot go on waits in one place only: for another worker's step, for a piece, for room in a
// channel, or for a time; whoever ends that wakes it. Used by one thread, once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulation/event_queue.hpp"
#include "simulation/flat_program.hpp"
#include "simulation/simulate.hpp"

namespace tutti::simulation {

class Run {
 public:
  /// `chunk_bytes` need not be whole: chunks are equal parts of the vector.
  Run(FlatProgram program, const Topology& topology, int ranks, double chunk_bytes, const SimulationOptions& options);

  /// To the end of all workers, or the error that names those that wait for ever.
  Result<Simulation> finish();

 private:
  enum class StepPhase : std::uint8_t { waits, receives, takes, sends, ends };  // of a step

  struct SimulatedWorker {
    std::uint32_t tile = 0;
    std::uint32_t step = 0;             // among all
    std::uint32_t dependency = 0;       // the first that is perhaps not fulfilled, of the step
    std::int32_t next_waiting = kNone;  // for the same step of another worker
    StepPhase phase = StepPhase::waits;
  };
  struct ChannelState {
    std::uint32_t sent = 0;
    std::uint32_t arrived = 0;
    std::uint32_t taken = 0;
    bool sender_waits = false;
    bool receiver_waits = false;
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;
  };
  struct LinkState {
    double free = 0;
    double busy = 0;
    double seconds_per_byte = 0;
    double latency = 0;
  };
  struct SimulatedPiece {
    double bytes = 0;
    double last_byte = 0;  // when that comes to where the piece is going
    std::uint32_t channel = 0;
    std::uint32_t links_passed = 0;
    std::uint32_t flight = 0;
  };
  struct Passage {
    double begins = 0;
    double left = 0;  // when the last byte has left
  };

  void advance(std::uint32_t worker);
  bool dependencies_met(std::uint32_t worker);
  bool spends(std::uint32_t worker, double seconds);
  bool has_arrived(std::uint32_t worker);
  void take(std::uint32_t worker);
  bool launch(std::uint32_t worker);
  void end_step(std::uint32_t worker);
  Passage pass_link(std::uint32_t piece);
  void arrive(std::uint32_t piece);
  std::uint32_t add_piece(const SimulatedPiece& piece);
  void note_flight(std::uint32_t worker, double begins);
  double bytes_of(const FlatStep& step, std::uint32_t tile) const;
  Simulation result();
  std::string deadlock() const;
  std::string describe_wait(std::uint32_t worker) const;

  FlatProgram program_;
  SimulationOptions options_;
  std::uint32_t tiles_ = 1;
  double tile_bytes_ = 0;
  double last_tile_bytes_ = 0;

  double now_ = 0;
  EventQueue events_;
  std::vector<std::uint32_t> ready_;  // workers that can go on now
  std::vector<SimulatedWorker> workers_;
  std::vector<ChannelState> channels_;
  std::vector<LinkState> links_;
  std::vector<SimulatedPiece> pieces_;
  std::vector<std::uint32_t> free_pieces_;
  std::size_t unfinished_ = 0;
  Simulation simulation_;
};

}  // namespace tutti::simulation
