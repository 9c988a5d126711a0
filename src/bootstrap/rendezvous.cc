#include <fmt/core.h>

#include <atomic>

#include "base/log.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/pmi.hpp"
#include "bootstrap/unique_id.hpp"

namespace tutti {
namespace {

// Told to the others in place of an id, so that they do not wait for a store that will never open.
constexpr const char* kNoId = "none";

Result<JoinInfo> meet_by_id(const LaunchInfo& launch, const std::string& text) {
  if (text == kNoId) return fail(ErrorCode::rank_died, "rank 0 could not open the store; it says why");
  auto id = UniqueId::from_string(text);
  if (!id) return tl::unexpected(id.error());
  return join_info(*id, launch.rank, launch.size);
}

Result<JoinInfo> meet_at_endpoints(const LaunchInfo& launch, int number) {
  JoinInfo info;
  info.endpoints = launch.endpoints;
  info.secret = launch.secret;
  info.job = fmt::format("{} #{}", launch.job, number);
  info.rank = launch.rank;
  info.size = launch.size;
  return info;
}

// Rank 0 makes an id and the launcher carries it to the others.
Result<JoinInfo> meet_through_launcher(const LaunchInfo& launch, int number, Deadline deadline) {
  const std::string key = fmt::format("tutti-{}", number);
  std::string own = kNoId;
  Result<UniqueId> made = fail(ErrorCode::internal, "only rank 0 makes the id");
  if (launch.rank == 0) made = UniqueId::create();
  if (made) own = made->to_string();
  auto text = launch.meeting == Meeting::pmi ? broadcast_by_pmi(launch.pmi_descriptor, launch.rank, key, own, deadline)
                                             : broadcast_by_pmix(launch.rank, key, own, deadline);
  if (launch.rank == 0 && !made) return tl::unexpected(made.error());
  if (!text && text.error().code == ErrorCode::unsupported && !launch.endpoints.empty()) {
    log::info("{}; meeting at {} port {}", text.error().message, launch.endpoints.front().host,
              launch.endpoints.front().port);
    return meet_at_endpoints(launch, number);
  }
  if (!text) return tl::unexpected(text.error());
  return meet_by_id(launch, *text);
}

}  // namespace

Result<JoinInfo> rendezvous(const LaunchInfo& launch, Deadline deadline) {
  static std::atomic<int> calls{0};
  const int number = calls++;
  Result<JoinInfo> info = fail(ErrorCode::internal, "no way to meet");
  switch (launch.meeting) {
    case Meeting::endpoints:
      info = meet_at_endpoints(launch, number);
      break;
    case Meeting::unique_id:
      info = meet_by_id(launch, launch.unique_id);
      break;
    case Meeting::pmi:
    case Meeting::pmix:
      info = meet_through_launcher(launch, number, deadline);
      break;
  }
  if (info) info->deadline = deadline;
  if (info) return info;
  Error error = info.error();
  error.rank = launch.rank;
  return tl::unexpected(error);
}

Result<JoinInfo> growth_place(const LaunchInfo& launch, int rank, int size) {
  if (rank == kNewcomer && launch.meeting == Meeting::unique_id) {
    const auto id = UniqueId::from_string(launch.unique_id);
    if (!id) return tl::unexpected(id.error());
    return join_info(*id, rank, size);
  }
  if (launch.endpoints.empty() || launch.endpoints.front().port == 0)
    return fail(ErrorCode::unsupported,
                "nothing says where newcomers meet the ranks: hand them an id, or set TUTTI_ADDRESS=host:port on all");
  JoinInfo info;
  info.endpoints = launch.endpoints;
  info.secret = launch.secret;
  info.job = fmt::format("{} grows", launch.job);
  info.rank = rank;
  info.size = size;
  return info;
}

}  // namespace tutti
