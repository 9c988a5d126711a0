// One of two ranks that run an operation of each sort, for witness.c to see. 1: an operation failed.
#include <array>
#include <cstdio>
#include <vector>

#include "tutti/communicator.hpp"

namespace {

tutti::Status run(tutti::Communicator& ranks) {
  using tutti::DataType;
  using tutti::Operator;
  std::vector<float> floats(1000, 1);
  std::array<std::int64_t, 5> numbers{};
  std::vector<float> gathered(2000);
  std::array<std::uint8_t, 7> bytes{};
  const auto both = [](tutti::Status first, tutti::Status second) { return first ? second : first; };
  const auto reduce = [&] {
    return ranks.all_reduce(floats.data(), floats.data(), floats.size(), DataType::float32, Operator::sum);
  };
  tutti::Status status = both(reduce(), reduce());  // the second as the first was bound
  status = both(status, ranks.broadcast(numbers.data(), numbers.data(), numbers.size(), DataType::int64, 1));
  status = both(status, ranks.barrier());
  auto work = ranks.all_gather_async(floats.data(), gathered.data(), floats.size(), DataType::float32);
  status = both(status, work ? work->wait() : tl::make_unexpected(work.error()));
  return both(status, ranks.rank() == 0 ? ranks.send(bytes.data(), bytes.size(), DataType::uint8, 1)
                                        : ranks.recv(bytes.data(), bytes.size(), DataType::uint8, 0));
}

}  // namespace

int main() {
  tutti::Options options = tutti::Options::from_environment();
  options.name = "pair";
  auto ranks = tutti::Communicator::create_from_environment(options);
  const tutti::Status status = ranks ? run(*ranks) : tl::make_unexpected(ranks.error());
  if (!status) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status ? 0 : 1;
}
