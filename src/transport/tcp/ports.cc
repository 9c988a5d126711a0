#include "transport/tcp/ports.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

namespace tutti {
namespace {

std::vector<SocketAddress> usable_addresses(const std::vector<Interface>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Interface& each) { return each.name == name; });
  if (found == all.end() || !found->up || !found->running) return {};
  return found->addresses;
}

std::vector<SocketAddress> without(std::vector<SocketAddress> all, const std::vector<SocketAddress>& others) {
  std::erase_if(
      all, [&](const SocketAddress& each) { return std::find(others.begin(), others.end(), each) != others.end(); });
  return all;
}

void add_change(std::vector<Ports::Change>& changes, bool usable, const std::string& interface,
                std::vector<SocketAddress> addresses) {
  if (!addresses.empty()) changes.push_back({usable, interface, std::move(addresses)});
}

}  // namespace

Ports::Ports(Sockets& sockets)
    : sockets_(sockets), socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (socket_ && ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    socket_.reset();
  if (auto all = sockets_.interfaces()) known_ = std::move(*all);
}

// The messages say that something changed; what, the kernel is asked. Where some were lost, this misses nothing.
std::vector<Ports::Change> Ports::changes() {
  std::array<std::byte, 8192> message;
  while (::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT) > 0) {
  }
  auto now = sockets_.interfaces();
  if (!now) return {};
  auto changes = compare(known_, *now);
  known_ = std::move(*now);
  return changes;
}

std::vector<Ports::Change> compare(const std::vector<Interface>& before, const std::vector<Interface>& after) {
  std::vector<Ports::Change> changes;
  for (const Interface& each : before)
    add_change(changes, false, each.name,
               without(usable_addresses(before, each.name), usable_addresses(after, each.name)));
  for (const Interface& each : after)
    add_change(changes, true, each.name,
               without(usable_addresses(after, each.name), usable_addresses(before, each.name)));
  return changes;
}

}  // namespace tutti
