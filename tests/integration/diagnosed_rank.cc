// One rank of a job that looks like training: it computes (sleeps), reduces some large buffers and a small one, and
// starts again, until a file named `stop` exists. With --training it also exchanges with all ranks of its half of the
// job, and passes something on along a pipeline; with --pipeline, ranks are its stages. From a step on, or once a file
// named `begin` exists, the rank that is told to does something wrong. A rank whose call fails says so and stays, so
// that what it has recorded can be looked at.
#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

struct Arguments {
  std::string fault;  // empty: none
  int rank = 1;       // that does it
  int step = 40;      // from which on; -1: once a file named `begin` exists
  double milliseconds = 20;
  double late = 0;  // milliseconds that the rank computes longer; 0: twice as long as the others
  int buffers = 3;
  bool training = false;
  int pipeline = 0;  // micro-batches of a step; 0: ranks are no stages
};

/// What a step works on.
struct Job {
  std::unique_ptr<Communicator> world;
  std::unique_ptr<Communicator> half;    // null without --training
  std::unique_ptr<Communicator> stages;  // null without --pipeline
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
  if (arguments.fault == "late") compute(arguments.late > 0 ? arguments.late : 2 * arguments.milliseconds);
}

bool begins(const Arguments& arguments, int step) {
  return arguments.step < 0 ? ::access("begin", F_OK) == 0 : step >= arguments.step;
}

/// An all_to_all within a half of the job, as experts do, and what a stage of a pipeline gets from the one before it.
Status exchange(const Job& job) {
  if (job.half == nullptr) return {};
  constexpr std::size_t kEach = 4096;  // elements
  std::vector<float> out(kEach * static_cast<std::size_t>(job.half->size())), in(out.size());
  if (Status done = job.half->all_to_all(out.data(), in.data(), kEach, DataType::float32); !done) return done;
  const int rank = job.world->rank();
  if (rank > 0)
    if (Status done = job.world->recv(in.data(), kEach, DataType::float32, rank - 1); !done) return done;
  if (rank + 1 < job.world->size()) return job.world->send(out.data(), kEach, DataType::float32, rank + 1);
  return {};
}

/// Micro-batches from the first stage to the last, then their gradients back. `work`: what a stage does for each.
Status run_stages(Communicator& stages, int micro_batches, const std::function<void()>& work) {
  std::vector<float> data(1 << 14);
  const int before = stages.rank() - 1, after = stages.rank() + 1 < stages.size() ? stages.rank() + 1 : -1;
  for (const auto& [from, to] : {std::pair(before, after), std::pair(after, before)})
    for (int i = 0; i < micro_batches; ++i) {
      if (from >= 0)
        if (Status done = stages.recv(data.data(), data.size(), DataType::float32, from); !done) return done;
      work();
      if (to >= 0)
        if (Status done = stages.send(data.data(), data.size(), DataType::float32, to); !done) return done;
    }
  return {};
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

constexpr int kWarmUpSteps = 40;

Result<Job> make_job(const Arguments& arguments) {
  Job job;
  auto world = Communicator::create_from_environment(Options::from_environment());
  if (!world) return tl::unexpected(world.error());
  job.world = std::make_unique<Communicator>(*std::move(world));
  if (arguments.pipeline > 0) {
    auto stages = job.world->duplicate();
    if (!stages) return tl::unexpected(stages.error());
    job.stages = std::make_unique<Communicator>(*std::move(stages));
  }
  if (!arguments.training) return job;
  auto half = job.world->split(2 * job.world->rank() / job.world->size());
  if (!half) return tl::unexpected(half.error());
  job.half = *std::move(half);
  return job;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("One rank of a job that looks like training.");
  app.add_option("--fault", arguments.fault, "die, freeze, sit-out, late, wrong-call")
      ->check(CLI::IsMember({"die", "freeze", "sit-out", "late", "wrong-call"}));
  app.add_option("--rank", arguments.rank, "that does it");
  app.add_option("--step", arguments.step, "from which on; -1: once a file named begin exists");
  app.add_option("--late", arguments.late,
                 "milliseconds that the rank computes longer; 0: twice as long as the others");
  app.add_option("--buffers", arguments.buffers, "number of buffers that a step reduces");
  app.add_flag("--training", arguments.training, "all_to_all in halves of the job, and a pipeline");
  app.add_option("--pipeline", arguments.pipeline, "micro-batches of a step, for which each rank computes as a stage");
  app.add_option("--milliseconds", arguments.milliseconds, "a step, or a micro-batch, computes for");
  CLI11_PARSE(app, argc, argv);
  Result<Job> made = make_job(arguments);
  if (!made) {
    fmt::print(stderr, "{}\n", made.error().to_string());
    return 1;
  }
  const Job job = *std::move(made);
  bool has_begun = false;
  for (int step = 0;; ++step) {
    const bool misbehaves = job.world->rank() == arguments.rank && begins(arguments, step);
    if (step == (arguments.step < 0 ? kWarmUpSteps : arguments.step) && job.world->rank() == 0) {
      fmt::print("ready\n");
      std::fflush(stdout);
    }
    const auto work = [&] {
      compute(arguments.milliseconds);
      if (misbehaves) misbehave(arguments, !std::exchange(has_begun, true));
    };
    if (job.stages == nullptr) work();
    const Status exchanged = job.stages == nullptr ? exchange(job) : run_stages(*job.stages, arguments.pipeline, work);
    const Result<bool> done = exchanged ? reduce(*job.world, arguments, misbehaves && arguments.fault == "wrong-call")
                                        : tl::unexpected(exchanged.error());
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
