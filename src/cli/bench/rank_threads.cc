#include "cli/bench/rank_threads.hpp"

#include "base/thread.hpp"

namespace tutti::cli {

Status run_ranks(std::vector<Communicator>& communicators, const std::function<void(std::size_t)>& body) {
  Status outcome;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < communicators.size() && outcome; ++rank) {
    auto thread = start_thread("rank-" + std::to_string(rank), [&body, rank] { body(rank); });
    if (thread)
      threads.push_back(std::move(*thread));
    else
      outcome = tl::unexpected(thread.error());
  }
  if (!outcome)
    for (Communicator& each : communicators) each.abort("not all ranks could be started");
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

}  // namespace tutti::cli
