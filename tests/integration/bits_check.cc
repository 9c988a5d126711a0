// In mode `reproducible` a sum is taken from left to right in rank order, whatever the layout of the ranks, the number
// of elements and the memory they lie in: each layout held against that one sum is held against all others. Runs as
// threads of this process (--threads) or as one rank of a launched job. Exits with 1 and names the first difference.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "awkward.hpp"
#include "tutti/communicator.hpp"
#include "tutti/memory.hpp"

namespace tutti::integration {
namespace {

[[noreturn]] void give_up(const std::string& message) {
  std::fputs((message + "\n").c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(1);  // the other ranks would wait for this one
}

float sum_in_rank_order(int ranks, std::size_t index) {
  float sum = awkward(0, index);
  for (int rank = 1; rank < ranks; ++rank) sum += awkward(rank, index);
  return sum;
}

/// Memory of one kind, where peers can map it or not.
class Floats {
 public:
  Floats(std::size_t count, bool mapped) {
    if (!mapped) {
      plain_.resize(count);
      values_ = plain_;
      return;
    }
    const auto memory = allocate(count * sizeof(float));
    if (!memory) give_up(memory.error().to_string());
    mapped_.reset(*memory);
    values_ = {static_cast<float*>(*memory), count};
  }
  std::span<float> values() const { return values_; }

 private:
  struct Deallocate {
    void operator()(void* memory) const { (void)deallocate(memory); }
  };
  std::vector<float> plain_;
  std::unique_ptr<void, Deallocate> mapped_;
  std::span<float> values_;
};

void expect_in_rank_order(const Communicator& communicator, std::span<const float> sums, std::size_t first,
                          const std::string& what) {
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (const float expected = sum_in_rank_order(communicator.size(), first + i); !same_bits(sums[i], expected))
      give_up(fmt::format("rank {} of {}: {}: element {} is {:a}, in rank order it is {:a}", communicator.rank(),
                          communicator.size(), what, first + i, sums[i], expected));
}

void check_count(Communicator& communicator, std::size_t count, bool mapped) {
  const Floats mine(count, mapped);
  const Floats sums(count, mapped);
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::span<float> given = mine.values();
  const std::span<float> got = sums.values();
  std::ranges::copy(awkward_floats(communicator.rank(), count), given.begin());
  const auto check = [&](const char* collective, const Status& done, std::span<const float> part, std::size_t first) {
    const std::string what = fmt::format("{} of {} elements{}", collective, count, mapped ? ", mapped" : "");
    if (!done) give_up(fmt::format("{}: {}", what, done.error().to_string()));
    expect_in_rank_order(communicator, part, first, what);
  };
  const auto type = DataType::float32;
  const auto op = Operator::sum;
  check("all_reduce", communicator.all_reduce(given.data(), got.data(), count, type, op), got, 0);
  const int root = communicator.size() - 1;
  const Status reduced = communicator.reduce(given.data(), got.data(), count, type, op, root);
  check("reduce", reduced, communicator.rank() == root ? got : std::span<float>(), 0);
  const std::size_t block = count / ranks;
  const Status scattered = communicator.reduce_scatter(given.data(), got.data(), block, type, op);
  check("reduce_scatter", scattered, got.first(block), rank * block);
}

void check(Communicator& communicator, int hosts) {
  if (communicator.layout().hosts != hosts)
    give_up(fmt::format("{} hosts, where {} were to be", communicator.layout().hosts, hosts));
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{100003}, std::size_t{1} << 20})
    for (const bool mapped : {false, true}) check_count(communicator, count, mapped);
  if (communicator.rank() == 0) fmt::print("{} ranks of {} hosts reduce in rank order\n", communicator.size(), hosts);
}

int run(int argc, char** argv) {
  int threads = 0;
  int hosts = 1;
  CLI::App app("Holds reproducible sums against the sum in rank order, bit by bit.");
  app.add_option("--threads", threads, "so many ranks as threads; else this process is one rank of a job");
  app.add_option("--hosts", hosts, "that the ranks are to find");
  CLI11_PARSE(app, argc, argv);
  Options options = Options::from_environment();
  options.timeout = 30;
  options.reproducible = true;
  if (threads == 0) {
    Result<Communicator> communicator = Communicator::create_from_environment(options);
    if (!communicator) give_up(communicator.error().to_string());
    check(*communicator, hosts);
    return 0;
  }
  auto all = Communicator::create_threads(threads, options);
  if (!all) give_up(all.error().to_string());
  std::vector<std::thread> ranks;
  for (Communicator& communicator : *all) ranks.emplace_back([&] { check(communicator, hosts); });
  for (std::thread& rank : ranks) rank.join();
  return 0;
}

}  // namespace
}  // namespace tutti::integration

int main(int argc, char** argv) { return tutti::integration::run(argc, argv); }
