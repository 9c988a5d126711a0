// Runs many collectives and holds each against a plain reference, as threads of this process (--threads) or as one
// rank of a launched job. Exits with 1 and names the seed and the case at the first difference.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "batch.hpp"
#include "cases.hpp"
#include "random.hpp"
#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

struct Arguments {
  int threads = 0;
  std::string seed = "1";
  std::size_t cases = 0;
  std::size_t most_bytes = 0;
  std::optional<std::size_t> only;
  bool verbose = false;
};

/// Every rank must draw the same cases, so only threads may draw a seed of their own.
std::uint64_t seed_of(const Arguments& arguments) {
  if (arguments.seed != "random") return std::strtoull(arguments.seed.c_str(), nullptr, 0);
  if (arguments.threads > 0) return std::random_device()() | 1U;
  const char* const secret = std::getenv("TUTTI_SECRET");  // fresh for every job, and the same on all its ranks
  std::uint64_t seed = 0;
  for (const char* at = secret; at != nullptr && *at != '\0'; ++at) seed = hash(seed, *at);
  return seed >> 32;
}

[[noreturn]] void give_up(const std::string& message) {
  std::fputs((message + "\n").c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(1);  // the other ranks would wait for this one
}

void check(Communicator& communicator, const Arguments& arguments, std::uint64_t seed) {
  CaseOptions options;
  options.seed = seed;
  options.cases = arguments.cases;
  options.ranks = communicator.size();
  options.most_bytes = arguments.most_bytes != 0 ? arguments.most_bytes
                                                 : (std::size_t{8} << 20) / static_cast<std::size_t>(options.ranks);
  const auto batches = make_batches(make_cases(options), seed);
  for (std::size_t number = 0; number < batches.size(); ++number) {
    if (arguments.only && number != *arguments.only) continue;
    if (arguments.verbose && communicator.rank() == 0)
      for (const Case& one : batches[number]) fmt::print(stderr, "batch {}: {}\n", number, describe(one));
    const std::string wrong = run_batch(batches[number], communicator, hash(seed, number));
    if (!wrong.empty())
      give_up(fmt::format("rank {} of {}, seed {}, batch {}: {}\n    again: --seed {} --cases {} --only {}",
                          communicator.rank(), communicator.size(), seed, number, wrong, seed, arguments.cases,
                          number));
  }
  if (communicator.rank() == 0) {
    std::size_t cases = 0;
    for (const auto& batch : batches) cases += batch.size();
    fmt::print("{} cases on {} ranks of {} hosts are right (seed {})\n", cases, communicator.size(),
               communicator.layout().hosts, seed);
  }
}

void check_threads(const Arguments& arguments, std::uint64_t seed, const Options& options) {
  auto all = Communicator::create_threads(arguments.threads, options);
  if (!all) give_up(all.error().to_string());
  std::vector<std::thread> threads;
  for (Communicator& communicator : *all) threads.emplace_back([&] { check(communicator, arguments, seed); });
  for (std::thread& thread : threads) thread.join();
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Holds collectives against a plain reference.");
  app.add_option("--threads", arguments.threads, "so many ranks as threads; else this process is one rank of a job");
  app.add_option("--seed", arguments.seed, "a number, or random")->envname("TUTTI_CHECK_SEED");
  app.add_option("--cases", arguments.cases, "how many; 0: a pairwise cover of all properties");
  app.add_option("--bytes", arguments.most_bytes, "of a rank's larger buffer, at most");
  app.add_option("--only", arguments.only, "run this batch alone");
  app.add_flag("--verbose", arguments.verbose, "say what is run");
  CLI11_PARSE(app, argc, argv);
  const std::uint64_t seed = seed_of(arguments);
  Options options = Options::from_environment();
  if (options.timeout == 0) options.timeout = 30;
  if (arguments.threads > 0) {
    check_threads(arguments, seed, options);
    return 0;
  }
  Result<Communicator> communicator = Communicator::create_from_environment(options);
  if (!communicator) give_up(communicator.error().to_string());
  check(*communicator, arguments, seed);
  return 0;
}

}  // namespace
}  // namespace tutti::integration

int main(int argc, char** argv) { return tutti::integration::run(argc, argv); }
