// One process of a start-up bench: creates a communicator of all, and runs a barrier. See bench/startup.py.
//
//   tutti_startup PROCESSES
#include "start.hpp"
#include "tutti/tutti.hpp"

int main(int argc, char** argv) {
  if (argc != 2) startup::give_up("expected the number of processes");
  startup::Start start(std::atoi(argv[1]));
  start.call();
  tutti::Options options = tutti::Options::from_environment();
  options.join_timeout = 120;
  auto communicator = tutti::Communicator::create_from_environment(options);
  if (!communicator) startup::give_up(communicator.error().to_string());
  start.created();
  if (const auto done = communicator->barrier(); !done) startup::give_up(done.error().to_string());
  start.ended();
}
