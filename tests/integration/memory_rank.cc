// One of two ranks whose memory of tutti::allocate is used in awkward ways (--act). It says on standard output, a line
// each, what it goes through:
//   inside                the operator of rank 1 was called: the rank is in the middle of a step
//   failed CODE MESSAGE   the call failed
//   refilled              the caller has its buffers for itself again, and has written into them
//   kept                  what it wrote is still there
//   right                 all results were right, to the end
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

#include "tutti/communicator.hpp"
#include "tutti/memory.hpp"

namespace tutti::integration {
namespace {

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int say_failed(const Error& error) {
  say(fmt::format("failed {} {}", name_of(error.code), error.to_string()));
  return 1;
}

/// Waits for a line on standard input.
void wait_for_word() {
  char letter = 0;
  while (::read(STDIN_FILENO, &letter, 1) == 1 && letter != '\n') {
  }
}

float* allocate_floats(std::size_t count, float value) {
  auto* const memory = static_cast<float*>(allocate(count * sizeof(float)).value());
  std::fill_n(memory, count, value);
  return memory;
}

/// While a collective runs on mapped memory, rank 1 frees a region that nobody uses and sends from another; rank 0,
/// which reads both, hears that something was freed.
int free_beside_a_collective(Communicator& communicator) {
  constexpr std::size_t kCount = 4 << 20;
  constexpr std::size_t kMessage = 64 << 10;
  const int rank = communicator.rank();
  float* const input = allocate_floats(kCount, static_cast<float>(rank + 1));
  float* const output = allocate_floats(kCount, 0);
  float* const message = allocate_floats(kMessage, 5);
  void* unused = allocate(4096).value();
  for (int round = 0; round < 30; ++round) {
    std::fill_n(output, kCount, 0.0F);
    Result<Work> work = communicator.all_reduce_async(input, output, kCount, DataType::float32, Operator::sum);
    if (!work) return say_failed(work.error());
    if (rank == 1) {
      if (Status freed = deallocate(unused); !freed) return say_failed(freed.error());
      unused = allocate(4096).value();
    }
    const Status sent = rank == 1 ? communicator.send(message, kMessage, DataType::float32, 0)
                                  : communicator.recv(message, kMessage, DataType::float32, 1);
    if (!sent) return say_failed(sent.error());
    if (Status done = work->wait(); !done) return say_failed(done.error());
    if (std::count(output, output + kCount, 3.0F) != static_cast<std::ptrdiff_t>(kCount)) return 1;
    if (std::count(message, message + kMessage, 5.0F) != static_cast<std::ptrdiff_t>(kMessage)) return 1;
  }
  say("right");
  return 0;
}

/// Adds, and in rank 1 stands still the first time, until it is continued or told to go on.
struct StandingStill {
  bool now = false;
  bool by_signal = false;

  static void add(const void* a, const void* b, void* result, std::size_t count, DataType, void* context) {
    auto& self = *static_cast<StandingStill*>(context);
    if (self.now) {
      self.now = false;
      say("inside");
      if (self.by_signal)
        ::raise(SIGSTOP);
      else
        wait_for_word();
    }
    const auto* const left = static_cast<const float*>(a);
    const auto* const right = static_cast<const float*>(b);
    std::transform(left, left + count, right, static_cast<float*>(result), [](float x, float y) { return x + y; });
  }
};

/// The call of rank 0 fails while rank 1 is in the middle of a step that writes into rank 0's memory. From then on that
/// memory is rank 0's, whatever rank 1 does when it goes on.
int outlive_a_peer_that_stands_still(Communicator& communicator, bool by_signal) {
  constexpr std::size_t kCount = 1 << 20;
  constexpr std::size_t kBeside = 1000;  // floats of the same regions that are not of the call
  const int rank = communicator.rank();
  float* const inputs = allocate_floats(kCount + 2 * kBeside, static_cast<float>(rank + 1));
  float* const outputs = allocate_floats(kCount + 2 * kBeside, 4);
  float* const input = inputs + kBeside;
  float* const output = outputs + kBeside;
  StandingStill still{rank == 1, by_signal};
  const Status done =
      communicator.all_reduce(input, output, kCount, DataType::float32, Reduction::user(StandingStill::add, &still));
  if (done) return say("it did not fail"), 1;
  say_failed(done.error());
  std::fill_n(output, kCount, 17.0F);
  std::fill_n(input, kCount, static_cast<float>(rank + 1));
  say("refilled");
  wait_for_word();
  const bool kept = std::count(output, output + kCount, 17.0F) == static_cast<std::ptrdiff_t>(kCount) &&
                    std::count(outputs, output, 4.0F) == kBeside &&
                    std::count(output + kCount, output + kCount + kBeside, 4.0F) == kBeside;
  say(kept ? "kept" : "overwritten");
  if (!kept) return 1;
  // The same memory serves the next communicator.
  Result<Communicator> next = communicator.shrink();
  if (!next) return say_failed(next.error());
  if (Status reduced = next->all_reduce(input, output, kCount, DataType::float32, Operator::sum); !reduced)
    return say_failed(reduced.error());
  if (std::count(output, output + kCount, 3.0F) != static_cast<std::ptrdiff_t>(kCount)) return 1;
  say("right");
  return 0;
}

int run(int argc, char** argv) {
  std::string act;
  double timeout = 0;
  CLI::App app("One of two ranks whose memory is used in awkward ways.");
  app.add_option("--act", act, "free, stopped or slow")->required();
  app.add_option("--timeout", timeout, "seconds an operation may take");
  CLI11_PARSE(app, argc, argv);
  Options options = Options::from_environment();
  options.timeout = timeout;
  Result<Communicator> communicator = Communicator::create_from_environment(options);
  if (!communicator) return say_failed(communicator.error());
  if (act == "free") return free_beside_a_collective(*communicator);
  return outlive_a_peer_that_stands_still(*communicator, act == "stopped");
}

}  // namespace
}  // namespace tutti::integration

int main(int argc, char** argv) { return tutti::integration::run(argc, argv); }
