// A rank that joins, waits until its recording knows the clock of the job's first process, and prints
// "RANK OFFSET ERROR", in nanoseconds. 1: it did not come to know it.
#include <fmt/core.h>
#include <sched.h>

#include "base/clock.hpp"
#include "monitor/recorder.hpp"
#include "tutti/communicator.hpp"

int main() {
  using namespace tutti;
  auto communicator = Communicator::create_from_environment();
  if (!communicator) {
    fmt::print(stderr, "{}\n", communicator.error().message);
    return 1;
  }
  const monitor::Recorder& recorder = monitor::Recorder::of_process();
  if (!recorder.is_on()) {
    fmt::print(stderr, "nothing is recorded\n");
    return 1;
  }
  const monitor::Head& head = recorder.map().head();
  const Deadline deadline = Deadline::in(10);
  while (head.clock_error.get() == ~std::uint64_t{0} && !deadline.passed()) sched_yield();
  const bool known = head.clock_error.get() != ~std::uint64_t{0};
  if (known) fmt::print("{} {} {}\n", communicator->rank(), head.clock_offset.get(), head.clock_error.get());
  // The first must not leave before the others have heard of it.
  const Status met = communicator->barrier();
  return known && met ? 0 : 1;
}
