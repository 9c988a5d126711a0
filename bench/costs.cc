// What a communicator costs besides time per call: threads to create, memory, the CPU of a rank that waits; and what
// the small floats cost against float32. Starts its own ranks; prints a line of JSON for each answer, as
// bench/run.py writes them to BUILD/bench/costs.json.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "ranks.hpp"

namespace {

using tutti::Communicator;
using tutti::DataType;
using tutti::Operator;
using namespace tutti::bench;

void answer(const std::string& what, const char* unit, double measured, double bar, bool at_least) {
  const bool met = at_least ? measured >= bar : measured <= bar;
  std::printf("{\"what\": \"%s\", \"unit\": \"%s\", \"measured\": %.4g, \"bar\": %g, \"met\": %s}\n", what.c_str(),
              unit, measured, bar, met ? "true" : "false");
  std::fflush(stdout);
}

void create_threads() {
  const auto start = Clock::now();
  const auto ranks = Communicator::create_threads(64);
  if (!ranks) give_up(ranks.error().to_string());
  answer("64 ranks as threads: create", "seconds", seconds_since(start), 1, false);
}

/// This process's share of all memory it uses, in bytes.
double own_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word)
    if (word == "Pss:") {
      double kilobytes = 0;
      file >> kilobytes;
      return kilobytes * 1024;
    }
  give_up("no smaps_rollup");
}

void use_everything(Communicator& communicator, float* send, float* recv, std::size_t bytes) {
  const auto size = static_cast<std::size_t>(communicator.size());
  for (std::size_t now = 64 * size; now <= bytes; now *= 8) {
    const std::size_t count = now / sizeof(float);
    check(communicator.all_reduce(send, recv, count, DataType::float32, Operator::sum));
    check(communicator.all_gather(send, recv, count / size, DataType::float32));
    check(communicator.reduce_scatter(send, recv, count / size, DataType::float32, Operator::sum));
    check(communicator.all_to_all(send, recv, count / size, DataType::float32));
    check(communicator.broadcast(send, recv, count, DataType::float32, 0));
  }
}

/// Megabytes per rank that a communicator takes, all its ranks together, once every collective has run at all sizes.
double memory_per_rank(int size) {
  constexpr std::size_t kBytes = 16 << 20;
  const auto taken = on_processes<double>(size, [&](int rank, const std::string& id) {
    std::vector<float> send(kBytes / sizeof(float), 1.0F);
    std::vector<float> recv(kBytes / sizeof(float), 0.0F);
    Communicator first = join(rank, size, id);
    use_everything(first, send.data(), recv.data(), kBytes);
    check(first.barrier());
    const double before = own_memory();
    check(first.barrier());
    auto second = first.duplicate();
    if (!second) give_up(second.error().to_string());
    use_everything(*second, send.data(), recv.data(), kBytes);
    check(second->barrier());
    const double after = own_memory();
    check(second->barrier());
    return after - before;
  });
  double sum = 0;
  for (const double each : taken) sum += each;
  return sum / size / (1 << 20);
}

void memory() {
  const double at_8 = memory_per_rank(8);
  answer("memory per rank of one more communicator, 8 ranks, all collectives to 16 MB", "MB", at_8, 4, false);
  const double at_16 = memory_per_rank(16);
  answer("the same with 16 ranks / with 8", "ratio", at_16 / at_8, 1.5, false);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void blocked(int size, const char* where) {
  const auto shares = on_processes<double>(size, [&](int rank, const std::string& id) {
    if (*where == 't') setenv("TUTTI_HOST_ID", std::to_string(rank).c_str(), 1);
    Communicator communicator = join(rank, size, id);
    check(communicator.barrier());
    if (rank == 0) usleep(1000000);
    const double before = cpu_seconds();
    const auto start = Clock::now();
    check(communicator.barrier());
    return rank == 0 ? 0 : (cpu_seconds() - before) / seconds_since(start) * 100;
  });
  answer("a rank blocked for a second, " + std::to_string(size) + " ranks, " + where, "percent of a core",
         *std::max_element(shares.begin(), shares.end()), 5, false);
}

/// Bytes per second of all_reduce, the best of several runs of each type in turn.
void small_floats(std::size_t bytes, const char* text) {
  constexpr DataType kTypes[] = {DataType::float32, DataType::bfloat16, DataType::float16};
  const auto ratios = [&](int which) {
    return on_processes<double>(2, [&](int rank, const std::string& id) {
      const std::vector<std::byte> send(bytes);
      std::vector<std::byte> recv(bytes);
      Communicator communicator = join(rank, 2, id);
      double best[2] = {1e9, 1e9};
      for (int round = 0; round < 60; ++round)
        for (int type = 0; type < 2; ++type) {
          const DataType now = kTypes[type == 0 ? 0 : which];
          const std::size_t count = bytes / (type == 0 ? 4 : 2);
          check(communicator.barrier());
          const auto start = Clock::now();
          check(communicator.all_reduce(send.data(), recv.data(), count, now, Operator::sum));
          best[type] = std::min(best[type], seconds_since(start));
        }
      return best[0] / best[1];
    });
  };
  for (const int which : {1, 2})
    answer(std::string("all_reduce, 2 ranks, ") + text + ": " + (which == 1 ? "bfloat16" : "float16") +
               "'s bytes per second / float32's",
           "ratio", ratios(which)[0], 0.9, true);
}

}  // namespace

int main() {
  blocked(2, "shared memory");
  blocked(8, "shared memory");
  blocked(2, "tcp");
  memory();
  small_floats(2 << 20, "2 MB");
  small_floats(32 << 20, "32 MB");
  create_threads();
}
