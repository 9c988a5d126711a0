#include "transport/tcp/listening_ports.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/settings.hpp"

namespace tutti {

Result<std::vector<ListeningPorts::Port>> ListeningPorts::chosen_ports(bool has_secret) const {
  const auto family = parse_family(settings().family);
  if (!family) return tl::unexpected(family.error());
  if (!has_secret && !settings().insecure)
    return std::vector<Port>{{"", SocketAddress::loopback(*family == AF_INET6 ? AF_INET6 : AF_INET)}};
  auto chosen = chosen_interfaces(sockets_.interfaces());
  if (!chosen) return tl::unexpected(chosen.error());
  std::vector<Port> ports;
  for (const Interface& each : *chosen)
    if (!each.addresses.empty()) ports.push_back({each.name, each.addresses.front()});
  if (ports.empty()) return fail(ErrorCode::unsupported, "no network interface has an address to listen on");
  return ports;
}

Result<Fd> ListeningPorts::listen_at(Port& port) const {
  auto opened = sockets_.listen(port.address);
  if (!opened) return tl::unexpected(opened.error());
  port.address = opened->address;
  return std::move(opened->socket);
}

Result<std::vector<Fd>> ListeningPorts::open(const std::vector<SocketAddress>& addresses, bool has_secret) {
  std::vector<Port> given;
  for (const SocketAddress& address : addresses) given.push_back({"", address});
  auto ports = addresses.empty() ? chosen_ports(has_secret) : Result<std::vector<Port>>(std::move(given));
  if (!ports) return tl::unexpected(ports.error());
  std::vector<Fd> listeners;
  for (Port& port : *ports) {
    auto listener = listen_at(port);
    if (!listener) return tl::unexpected(listener.error());
    listeners.push_back(std::move(*listener));
  }
  // Without it this process has its own ports only; nothing else depends on it.
  if (auto local = sockets_.listen_locally(id_)) {
    local_ = std::move(*local);
    listeners.push_back(local_.take_listener());
  } else {
    log::info("no local listener for neighbours: {}", local.error().message);
  }
  const std::lock_guard lock(mutex_);
  ports_ = std::move(*ports);
  return listeners;
}

std::vector<Fd> ListeningPorts::open_new() {
  const std::lock_guard lock(mutex_);
  std::vector<Fd> listeners;
  if (ports_.front().interface.empty()) return listeners;
  auto wanted = chosen_ports(true);
  if (!wanted) return listeners;
  for (Port& port : *wanted) {
    const auto same =
        std::find_if(ports_.begin(), ports_.end(), [&](const Port& each) { return each.interface == port.interface; });
    if (same != ports_.end() && same->address.with_port(0) == port.address.with_port(0)) continue;
    auto listener = listen_at(port);
    if (!listener) continue;
    log::info("{} has the address {} now", port.interface, port.address.host());
    listeners.push_back(std::move(*listener));
    if (same != ports_.end())
      *same = port;
    else
      ports_.push_back(port);
  }
  return listeners;
}

Endpoint ListeningPorts::endpoint() const {
  const std::lock_guard lock(mutex_);
  Endpoint own{id_, {}, local_.path()};
  for (const Port& port : ports_) own.addresses.push_back(port.address);
  if (announced_ == 0) announced_ = ports_.size();
  return own;
}

std::size_t ListeningPorts::announced() const {
  const std::lock_guard lock(mutex_);
  return announced_ != 0 ? announced_ : ports_.size();
}

std::vector<OwnAddress> ListeningPorts::sources() const {
  const std::vector<SocketAddress> listening = endpoint().addresses;
  std::vector<OwnAddress> own = sockets_.own_addresses();
  std::erase_if(own, [&](const OwnAddress& each) {
    return std::none_of(listening.begin(), listening.end(), [&](const SocketAddress& address) {
      return address.with_port(0) == each.address.with_port(0);
    });
  });
  return own;
}

}  // namespace tutti
