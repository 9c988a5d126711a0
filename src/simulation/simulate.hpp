// How long a program takes on a topology: every step of every worker, every tile, as events in time.
//
// The model. A worker does its steps in order, tile after tile, as the engine does; a step waits for its dependencies
// of the same tile. A send takes the route of its channel (topology/routes.hpp), link by link. A link serves one piece
// after the other, in the order of their coming, each for bytes / capacity; a piece enters the next link `latency`
// after it began to leave the one before, and has arrived when its last byte has. So a link never carries more than its
// capacity, and no simulated time is below a bound of bound/bound.hpp. The sender's worker goes on when the last
// byte has left the first link. A channel from rank to rank holds `slots` pieces that are not taken out yet: a send
// waits for room. A receive is done when the piece has arrived. Reductions and local copies take bytes / `memory_rate`,
// every step `step_seconds` of its worker's time; both cost nothing unless told. One-sided programs are refused: they
// need no network. Pure; the same result for the same arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "program/program.hpp"
#include "topology/routes.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct SimulationOptions {
  std::uint64_t bytes = 0;  // of the whole vector, as certificates count (bound/certificate.hpp); chunks divide it
  std::uint64_t tile = 0;   // bytes of a chunk run through the program at a time; 0: all
  int slots = 8;
  double step_seconds = 0;
  double memory_rate = 0;  // bytes per second; 0: without end
  bool keeps_flights = false;
};

/// One piece on its way, for timelines.
struct Flight {
  int from = 0;
  int to = 0;
  int channel = 0;
  int worker = 0;  // of the sender
  int step = 0;
  int tile = 0;
  double begins = 0;  // seconds
  double ends = 0;
};

struct Simulation {
  double seconds = 0;
  std::vector<double> rank_seconds;  // when each rank was done
  std::vector<double> link_busy;     // [link] seconds it carried something
  std::uint64_t pieces = 0;          // sent
  std::vector<Flight> flights;       // in order of beginning, where asked for
};

/// A program made ready to be simulated any number of times. Refers to the topology.
class Simulator {
 public:
  /// Fails where a rank sends to one it has no route to (it names both), for one-sided programs, and for a program of
  /// another number of ranks than the topology.
  static Result<Simulator> of(const Program& program, Routes& routes);
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// Fails with a deadlock named by the steps that wait.
  Result<Simulation> run(const SimulationOptions& options) const;
  /// Pieces that are sent for each tile.
  std::uint64_t pieces() const;

 private:
  struct Prepared;
  explicit Simulator(std::unique_ptr<const Prepared> prepared);

  std::unique_ptr<const Prepared> prepared_;
};

/// Once.
Result<Simulation> simulate(const Program& program, Routes& routes, const SimulationOptions& options);

}  // namespace tutti
