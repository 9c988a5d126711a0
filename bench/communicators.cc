// What many communicators of the same two processes cost: time to create, threads, descriptors and memory. Starts its
// own ranks; prints a line of JSON for each figure, as bench/communicators.py reads them.
//
//   communicators_bench [COMMUNICATORS]
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ranks.hpp"

namespace {

using tutti::Communicator;
using tutti::DataType;
using tutti::Operator;
using tutti::UniqueId;
using namespace tutti::bench;

/// What a process uses.
struct Use {
  double threads = 0;
  double descriptors = 0;
  double megabytes = 0;  // resident

  static Use now() {
    const auto entries = [](const char* folder) {
      const std::filesystem::directory_iterator all(folder);
      return static_cast<double>(std::distance(begin(all), end(all)));
    };
    double pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return {entries("/proc/self/task"), entries("/proc/self/fd"), pages * 4096 / (1 << 20)};
  }

  Use since(const Use& before) const {
    return {threads - before.threads, descriptors - before.descriptors, megabytes - before.megabytes};
  }
};

struct Costs {
  double milliseconds = 0;  // to create one
  Use use;                  // of all of them
};

void reduce(Communicator& communicator) {
  float one = 1;
  float sum = 0;
  check(communicator.all_reduce(&one, &sum, 1, DataType::float32, Operator::sum));
  if (sum != 2) give_up("a wrong sum");
}

/// By an id that rank 0 makes and sends over `first`.
Communicator create_by_id(Communicator& first) {
  UniqueId::Bytes bytes{};
  if (first.rank() == 0) {
    const auto id = UniqueId::create();
    if (!id) give_up(id.error().to_string());
    bytes = id->bytes();
  }
  check(first.broadcast(bytes.data(), bytes.data(), bytes.size(), DataType::uint8, 0));
  return join(first.rank(), first.size(), UniqueId::from_bytes(bytes).value().to_string());
}

Communicator duplicate(Communicator& first) {
  auto made = first.duplicate();
  if (!made) give_up(made.error().to_string());
  return std::move(*made);
}

Costs measure(Communicator first, int count, Communicator (*make)(Communicator&)) {
  constexpr useconds_t kSettled = 300000;  // for stores and threads that are about to end
  std::vector<Communicator> warm;
  for (int i = 0; i < 2; ++i) {
    warm.push_back(make(first));
    reduce(warm.back());
  }
  usleep(kSettled);
  const Use before = Use::now();
  check(first.barrier());
  std::vector<Communicator> made;
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) made.push_back(make(first));
  const double seconds = seconds_since(start);
  for (Communicator& each : made) reduce(each);
  usleep(kSettled);
  const Use use = Use::now().since(before);
  check(first.barrier());
  return {seconds * 1000 / count, use};
}

void print(const std::string& what, const char* unit, double measured, double target) {
  std::printf("{\"what\": \"%s\", \"unit\": \"%s\", \"measured\": %.4g, \"target\": %g}\n", what.c_str(), unit,
              measured, target);
  std::fflush(stdout);
}

void run(int count, bool tcp, const char* how, Communicator (*make)(Communicator&)) {
  const auto costs = on_processes<Costs>(2, [&](int rank, const std::string& id) {
    if (tcp) setenv("TUTTI_HOST_ID", std::to_string(rank).c_str(), 1);
    return measure(join(rank, 2, id), count, make);
  });
  const auto worst = [&](auto value) { return std::max(value(costs[0]), value(costs[1])); };
  const std::string what =
      std::to_string(count) + " communicators of two processes, " + (tcp ? "TCP" : "shared memory") + ", " + how + ": ";
  print(what + "each takes", "ms", worst([](const Costs& c) { return c.milliseconds; }), 2);
  print(what + "threads", "more", worst([](const Costs& c) { return c.use.threads; }), 6);
  print(what + "descriptors", "more", worst([](const Costs& c) { return c.use.descriptors; }), 4);
  print(what + "memory", "MB more", worst([](const Costs& c) { return c.use.megabytes; }), 20);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 100;
  if (count < 1) give_up("expected a number of communicators");
  for (const bool tcp : {false, true}) {
    run(count, tcp, "by id", create_by_id);
    run(count, tcp, "duplicate()", duplicate);
  }
}
