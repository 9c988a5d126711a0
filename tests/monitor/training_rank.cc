// A rank of a job that trains: in each step it computes (it sleeps), then runs some all_reduces of 1 MB and one of 4
// bytes. One rank computes for longer. With `chain` it handles SIGINT as PyTorch does: it notes the signal, calls the
// handler that was there before, and goes on until the step is over.
//   training_rank COLLECTIVES COMPUTE_MS DELAY_MS LATE_RANK SECONDS [chain]
#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"

namespace {

volatile std::sig_atomic_t interrupted = 0;
void (*previous)(int) = nullptr;

void handle(int number) {
  interrupted = 1;
  if (previous != nullptr) previous(number);
}

void chain_handler() {
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = handle;
  ::sigaction(SIGINT, &action, &before);
  previous = before.sa_handler;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  if (argc != 6 && (argc != 7 || argv[6] != std::string_view("chain"))) return 2;
  const int collectives = std::atoi(argv[1]), late_rank = std::atoi(argv[4]);
  Options options;
  options.name = "training";
  auto communicator = Communicator::create_from_environment(options);
  if (!communicator) {
    fmt::print(stderr, "{}\n", communicator.error().message);
    return 1;
  }
  if (argc == 7) chain_handler();
  const double delay = communicator->rank() == late_rank ? std::atof(argv[3]) : 0;
  const Milliseconds compute{std::atof(argv[2]) + delay};
  std::vector<float> gradients(256 << 10), sums(gradients.size());
  float loss = 1, mean = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[5]));
  // All ranks have to agree on when to stop: rank 0 says so.
  for (float goes_on = 1; goes_on > 0;) {
    std::this_thread::sleep_for(compute);  // the work of a step, not a wait for something
    Status done;
    for (int i = 0; i + 1 < collectives && done; ++i)
      done =
          communicator->all_reduce(gradients.data(), sums.data(), gradients.size(), DataType::float32, Operator::sum);
    loss = interrupted != 0 || (communicator->rank() == 0 && std::chrono::steady_clock::now() > end) ? 0.0F : 1.0F;
    if (done) done = communicator->all_reduce(&loss, &mean, 1, DataType::float32, Operator::min);
    goes_on = mean;
    if (!done) {
      fmt::print(stderr, "{}\n", done.error().message);
      return 1;
    }
  }
  return 0;
}
