// One rank per host: every collective moves through the sockets exactly the bytes its algorithm must, neither more nor
// less, and next to nothing beside them.
#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <vector>

#include "communicator/traffic.hpp"
#include "tutti/tutti.hpp"

namespace {

using tutti::Communicator;
using tutti::DataType;
using tutti::Operator;

constexpr std::size_t kCount = 3 * 5 * 1024 * 64;  // divides evenly by 2 to 5 ranks
constexpr std::uint64_t kBytes = kCount * sizeof(float);

struct Case {
  const char* name;
  std::uint64_t payload;  // of all ranks together
  std::function<tutti::Status()> run;
};

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "traffic: {}\n", why);
  std::exit(1);
}

void check(const tutti::Status& status) {
  if (!status) give_up(status.error().to_string());
}

/// Payload and all bytes sent and received by all ranks, since they were started.
std::vector<std::uint64_t> sums_of_all(Communicator& communicator) {
  check(communicator.barrier());  // moves no payload, and what was sent before it has come
  const tutti::TcpCounters counters = tutti::network_traffic(communicator);
  check(communicator.barrier());  // and the sums below have not
  const std::uint64_t own[3] = {counters.payload_sent, counters.payload_received, counters.bytes_sent};
  std::vector<std::uint64_t> all(3);
  check(communicator.all_reduce(own, all.data(), 3, DataType::uint64, Operator::sum));
  return all;
}

}  // namespace

int main() {
  auto made = Communicator::create_from_environment();
  if (!made) give_up(made.error().to_string());
  Communicator& communicator = *made;
  const auto ranks = static_cast<std::uint64_t>(communicator.size());
  const std::size_t block = kCount / ranks;
  if (communicator.layout().hosts != communicator.size()) give_up("needs a host per rank");
  std::vector<float> send(kCount, 1.0F);
  std::vector<float> recv(kCount);

  const Case cases[] = {
      {"all_reduce", 2 * (ranks - 1) * kBytes,
       [&] { return communicator.all_reduce(send.data(), recv.data(), kCount, DataType::float32, Operator::sum); }},
      {"all_gather", (ranks - 1) * kBytes,
       [&] { return communicator.all_gather(send.data(), recv.data(), block, DataType::float32); }},
      {"reduce_scatter", (ranks - 1) * kBytes,
       [&] { return communicator.reduce_scatter(send.data(), recv.data(), block, DataType::float32, Operator::sum); }},
      {"broadcast", (ranks - 1) * kBytes,
       [&] { return communicator.broadcast(send.data(), recv.data(), kCount, DataType::float32, 0); }},
      {"reduce", (ranks - 1) * kBytes,
       [&] { return communicator.reduce(send.data(), recv.data(), kCount, DataType::float32, Operator::sum, 0); }},
      {"all_to_all", (ranks - 1) * kBytes,
       [&] { return communicator.all_to_all(send.data(), recv.data(), block, DataType::float32); }},
      {"barrier", 0, [&] { return communicator.barrier(); }},
  };
  // The sums themselves travel, too: what that costs is measured between two of them.
  const auto first = sums_of_all(communicator);
  auto before = sums_of_all(communicator);
  const std::uint64_t own = before[0] - first[0];
  bool right = true;
  for (const Case& each : cases) {
    check(each.run());
    const auto after = sums_of_all(communicator);
    const std::uint64_t sent = after[0] - before[0] - own;
    const std::uint64_t received = after[1] - before[1] - own;
    const std::uint64_t beside = after[2] - before[2] - sent;
    const bool fits = sent == each.payload && received == each.payload && beside < each.payload / 100 + 64 * 1024;
    right = right && fits;
    if (communicator.rank() == 0)
      fmt::print("{:15} {:10} bytes sent, {:10} received, {:10} expected; {} beside them{}\n", each.name, sent,
                 received, each.payload, beside, fits ? "" : "  WRONG");
    before = after;
  }
  return right ? 0 : 1;
}
