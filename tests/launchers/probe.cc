// One rank of a job, started by whatever launcher: joins twice, as two communicators would, checks what it received,
// and prints "rank 1 of 4 by openmpi: joined".
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>

#include "bootstrap/join.hpp"
#include "bootstrap/launch.hpp"

namespace {

int complain(const tutti::Error& error) {
  fmt::print(stderr, "probe: {}\n", error.to_string());
  return 1;
}

tutti::Blob blob_of(int rank, int round) {
  const std::string text = fmt::format("rank {} round {}", rank, round);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

int main() {
  const auto launch = tutti::from_environment();
  if (!launch) return complain(launch.error());
  for (int round = 0; round < 2; ++round) {
    auto info = tutti::rendezvous(*launch, tutti::Deadline::in(30));
    if (!info) return complain(info.error());
    info->blob = blob_of(launch->rank, round);
    const auto blobs = tutti::join(*info);
    if (!blobs) return complain(blobs.error());
    for (int rank = 0; rank < launch->size; ++rank)
      if ((*blobs)[rank] != blob_of(rank, round)) {
        fmt::print(stderr, "probe: rank {} received a wrong blob of rank {}\n", launch->rank, rank);
        return 1;
      }
  }
  const std::string line = fmt::format("rank {} of {} by {}: joined\n", launch->rank, launch->size, launch->source);
  std::fwrite(line.data(), 1, line.size(), stdout);
  return 0;
}
