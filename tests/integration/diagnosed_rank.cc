// One rank of a job that looks like training: it computes (sleeps), reduces some large buffers and a small one, and
// starts again, until a file named `stop` exists. From a step on, the rank that is told to does something wrong. A rank
// whose call fails says so and stays, so that what it has recorded can be looked at.
#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

struct Arguments {
  std::string fault;  // empty: none
  int rank = 1;       // that does it
  int step = 40;      // from which on
  double milliseconds = 20;
  int buffers = 3;
};

bool told_to_stop() { return ::access("stop", F_OK) == 0; }

void stay() {
  while (!told_to_stop()) ::usleep(10'000);
}

void compute(double milliseconds) { ::usleep(static_cast<useconds_t>(1000 * milliseconds)); }

/// What the rank does before it reduces. It says when it does so first.
void misbehave(const Arguments& arguments, bool first) {
  if (first) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    fmt::print("misbehaves {}.{:09}\n", now.tv_sec, now.tv_nsec);
    std::fflush(stdout);
  }
  if (arguments.fault == "die") ::raise(SIGKILL);
  if (arguments.fault == "freeze") ::raise(SIGSTOP);
  if (arguments.fault == "sit-out") stay();
  if (arguments.fault == "late") compute(2 * arguments.milliseconds);
}

/// The small reduction says whether any rank is told to stop, so that all stop after the same step.
Result<bool> reduce(Communicator& communicator, const Arguments& arguments, bool wrong) {
  std::vector<float> buffer(1 << 16);
  for (int i = 0; i < arguments.buffers; ++i) {
    const std::size_t count = wrong && i == 1 ? buffer.size() / 2 : buffer.size();
    if (Status done = communicator.all_reduce(buffer.data(), buffer.data(), count, DataType::float32, Operator::sum);
        !done)
      return tl::unexpected(done.error());
  }
  int stop = told_to_stop() ? 1 : 0;
  if (Status done = communicator.all_reduce(&stop, &stop, 1, DataType::int32, Operator::max); !done)
    return tl::unexpected(done.error());
  return stop != 0;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("One rank of a job that looks like training.");
  app.add_option("--fault", arguments.fault, "die, freeze, sit-out, late, wrong-call")
      ->check(CLI::IsMember({"die", "freeze", "sit-out", "late", "wrong-call"}));
  app.add_option("--rank", arguments.rank, "that does it");
  app.add_option("--step", arguments.step, "from which on");
  app.add_option("--milliseconds", arguments.milliseconds, "a step computes for");
  CLI11_PARSE(app, argc, argv);
  auto communicator = Communicator::create_from_environment(Options::from_environment());
  if (!communicator) {
    fmt::print(stderr, "{}\n", communicator.error().to_string());
    return 1;
  }
  for (int step = 0;; ++step) {
    const bool misbehaves = step >= arguments.step && communicator->rank() == arguments.rank;
    if (step == arguments.step && communicator->rank() == 0) {
      fmt::print("ready\n");
      std::fflush(stdout);
    }
    compute(arguments.milliseconds);
    if (misbehaves) misbehave(arguments, step == arguments.step);
    const Result<bool> done = reduce(*communicator, arguments, misbehaves && arguments.fault == "wrong-call");
    if (!done) {
      fmt::print("failed {}\n", done.error().to_string());
      std::fflush(stdout);
      stay();
      return 1;
    }
    if (*done) return 0;
  }
}

}  // namespace
}  // namespace tutti::integration

int main(int argc, char** argv) { return tutti::integration::run(argc, argv); }
