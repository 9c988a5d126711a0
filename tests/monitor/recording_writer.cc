// Stands for a job: writes a recording as the library would, as told by lines on its standard input, and answers each
// with "ok". With its input closed it leaves in order.
//   operations COUNT      that many all_reduces of 1 MB, 1 ms each, of which a quarter was waiting
//   event KIND            tells an event (a number, monitor/layout.hpp)
//   storm RATE SECONDS    tells so many events a second
//   break                 the communicator breaks
#include <iostream>
#include <sstream>
#include <thread>

#include "agent/agent_test_kit.hpp"

namespace tutti::agent {
namespace {

void tell(monitor::Recorder& recorder, int kind) {
  monitor::Event event = event_of(static_cast<monitor::EventKind>(kind), 1);
  event.cause = monitor::Cause::path_congested;
  recorder.record(event);
}

void storm(monitor::Recorder& recorder, int rate, double seconds) {
  for (const Deadline end = Deadline::in(seconds); !end.passed();) {
    for (int i = 0; i < rate / 100; ++i) tell(recorder, static_cast<int>(monitor::EventKind::lane_dropped));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the rate, not a wait for something
  }
}

void run(const std::string& folder) {
  monitor::RecorderOptions options;
  options.folder = folder;
  const auto recorder = std::move(*monitor::Recorder::open(options));
  monitor::CommunicatorRecord& world = monitor::add_communicator(*recorder, 0, 2);
  add_lane(*recorder, 0, 1).usual.set(1e9);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    double first = 0, second = 0;
    words >> verb >> first >> second;
    if (verb == "operations")
      for (int i = 0; i < first; ++i) end_operation(*recorder, world, {Collective::all_reduce, 1 << 20, 1000, 250});
    if (verb == "event") tell(*recorder, static_cast<int>(first));
    if (verb == "storm") storm(*recorder, static_cast<int>(first), second);
    if (verb == "break") world.state.set(monitor::CommunicatorRecord::broken);
    std::cout << "ok" << std::endl;
  }
}

}  // namespace
}  // namespace tutti::agent

int main(int, char** argv) {
  tutti::agent::run(argv[1]);
  return 0;
}
