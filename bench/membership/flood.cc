// Notices of death. The overlay is that of control/world/overlay.hpp, and so is the memory of broadcasts that were
// seen; the rule by which a process passes a notice on (the first time, to all its neighbours) is written once more
// here, since World itself needs sockets.
#include "flood.hpp"

#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "control/death.hpp"
#include "control/frame.hpp"
#include "control/world/overlay.hpp"
#include "counts.hpp"

namespace tutti::membership {
namespace {

// Places on the ring of the living at distance 1, 2, 4, ..., both ways: what overlay_neighbours() computes in a time
// that grows with the number of processes, which is too long for all of 100,000. Some are compared with it.
std::set<int> ring_neighbours(int place, int living) {
  std::set<int> neighbours;
  for (int distance = 1; distance < living; distance *= 2) {
    neighbours.insert((place + distance) % living);
    neighbours.insert((place + living - distance) % living);
  }
  return neighbours;
}

bool is_drawn_right(int processes) {
  const std::vector<bool> living(static_cast<std::size_t>(processes), true);
  for (int sample = 0; sample < 16; ++sample) {
    const int process = static_cast<int>(static_cast<std::int64_t>(processes) * sample / 16);
    const std::set<int> expected = ring_neighbours(process, processes);
    const std::vector<int> drawn = overlay_neighbours(process, living);
    if (!std::equal(drawn.begin(), drawn.end(), expected.begin(), expected.end())) return false;
  }
  return true;
}

}  // namespace

bool measure_notices(int processes) {
  if (!is_drawn_right(processes)) return false;
  const int dead = processes / 3;
  WireWriter out;
  out.put(static_cast<std::uint32_t>(dead));
  out.put(Certainty::known);
  out.put_text("process 33333 died: process 1234567 of this host has ended");
  const std::size_t frame = encode_frame(ControlFrame::death, out.take()).size();

  Figures sent(processes), received(processes), bytes(processes), rounds(processes), opened(processes);
  std::vector<SeenBroadcasts> seen(static_cast<std::size_t>(processes), SeenBroadcasts(1));
  std::deque<int> hears;
  int heard = 0;
  const auto hear = [&](int process) {
    if (process == dead || !seen[static_cast<std::size_t>(process)].first_time(0, 0)) return false;
    ++heard;
    hears.push_back(process);
    return true;
  };
  hear((dead + 1) % processes);  // its neighbour on the ring saw the end
  while (!hears.empty()) {
    const int process = hears.front();
    hears.pop_front();
    for (const int other : ring_neighbours(process, processes)) {
      if (other == dead) continue;
      ++sent[process];
      ++received[other];
      bytes[process] += frame;
      bytes[other] += frame;
      if (hear(other)) rounds[other] = rounds[process] + 1;
    }
  }
  // The overlay without it: edges that did not exist before are connections, over which what is known goes.
  const auto place_of = [&](int process) { return process < dead ? process : process - 1; };
  const auto process_at = [&](int place) { return place < dead ? place : place + 1; };
  for (int process = 0; process < processes; ++process) {
    if (process == dead) continue;
    const std::set<int> before = ring_neighbours(process, processes);
    for (const int place : ring_neighbours(place_of(process), processes - 1))
      if (!before.contains(process_at(place))) ++opened[process];
  }
  print_figure("death notice", processes, "messages sent", sent);
  print_figure("death notice", processes, "messages received", received);
  print_figure("death notice", processes, "control bytes", bytes);
  print_figure("death notice", processes, "rounds", rounds);
  print_figure("death notice", processes, "connections opened", opened);
  return heard == processes - 1;
}

}  // namespace tutti::membership
