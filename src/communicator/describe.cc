#include "communicator/describe.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/version.hpp"
#include "communicator/impl.hpp"
#include "net/interfaces.hpp"
#include "selection/tuning.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

/// "1-3, 5"
std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[first]);
    if (last > first) text += fmt::format("-{}", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string interface_of(const SocketAddress& address) {
  const auto all = interfaces();
  if (all)
    for (const Interface& each : *all)
      for (const SocketAddress& own : each.addresses)
        if (own.host() == address.host()) return each.name;
  return "?";
}

std::string describe_process(const CommunicatorImpl& communicator) {
  const HostLayout& layout = communicator.layout();
  const std::string& name = communicator.options().name;
  return fmt::format("of {}{}, tutti {}: pid {} on {}, local rank {} of {}, {} host{}, communicator {:016x}",
                     communicator.size(), name.empty() ? "" : fmt::format(" of '{}'", name),
                     library_version().to_string(), ::getpid(), host_name(), layout.local_rank, layout.local_size,
                     layout.hosts, layout.hosts == 1 ? "" : "s", communicator.identity().id);
}

std::string describe_ports(const Tcp& tcp) {
  std::string text;
  for (const SocketAddress& address : tcp.endpoint().addresses)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", address.to_string(), interface_of(address));
  return fmt::format("listens for data on {}; at least {} lane{} to each peer, {}", text.empty() ? "no address" : text,
                     settings().tcp_lanes, settings().tcp_lanes == 1 ? "" : "s",
                     settings().lanes == "backup" ? "one carries, others are spares" : "all carry");
}

std::string describe_transports(const CommunicatorImpl& communicator) {
  std::vector<int> near, far;
  const auto& host_of = communicator.layout().host_of_rank;
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    const bool here = host_of[static_cast<std::size_t>(peer)] == host_of[static_cast<std::size_t>(communicator.rank())];
    (here ? near : far).push_back(peer);
  }
  std::string text;
  if (!near.empty())
    text = fmt::format("shared memory to rank{} {}{}", near.size() == 1 ? "" : "s", list_of(near),
                       communicator.identity().pull ? ", whose memory is read directly" : ", copied through segments");
  if (!far.empty())
    text += fmt::format("{}TCP to rank{} {}", text.empty() ? "" : "; ", far.size() == 1 ? "" : "s", list_of(far));
  return text.empty() ? "is alone" : text;
}

std::string describe_programs(const CommunicatorImpl& communicator) {
  const std::string table = tuning_path(communicator.size(), communicator.layout().hosts);
  std::error_code ignored;
  std::string text = std::filesystem::exists(table, ignored) ? fmt::format("tuned by {}", table) : "built-in choices";
  if (!settings().plans.empty())
    text += fmt::format("; {} programs of {}", communicator.plans().planned_programs(), settings().plans);
  if (!communicator.options().select.empty()) text += fmt::format("; select {}", communicator.options().select);
  if (communicator.options().reproducible) text += "; reproducible";
  return text;
}

}  // namespace

void log_description(const CommunicatorImpl& communicator) {
  if (!log::enabled(log::Level::info)) return;
  const int rank = communicator.rank();
  const Tcp* const tcp = communicator.layout().hosts > 1 ? communicator.job()->tcp() : nullptr;
  log::info("rank {} {}", rank, describe_process(communicator));
  if (tcp != nullptr) log::info("rank {} {}", rank, describe_ports(*tcp));
  log::info("rank {} transport: {}", rank, describe_transports(communicator));
  log::info("rank {} programs: {}", rank, describe_programs(communicator));
  if (tcp == nullptr) return;
  const auto& members = communicator.identity().members;
  for (std::size_t peer = 0; peer < members.size(); ++peer) {
    if (members[peer].host == members[static_cast<std::size_t>(rank)].host) continue;
    const Endpoint& endpoint = communicator.job()->endpoint_of(members[peer].process);
    std::string addresses;
    for (const SocketAddress& address : endpoint.addresses) addresses += " " + address.to_string();
    log::debug("rank {} to rank {}: TCP to{}; {}", rank, peer, addresses, tcp->describe_lanes(endpoint.id));
  }
}

}  // namespace tutti
