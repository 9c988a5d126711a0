#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/settings.hpp"
#include "base/thread.hpp"
#include "net/socket.hpp"

namespace tutti {
namespace {

const sockaddr_in& as_v4(const SocketAddress& address) {
  return *reinterpret_cast<const sockaddr_in*>(&address.storage);
}
const sockaddr_in6& as_v6(const SocketAddress& address) {
  return *reinterpret_cast<const sockaddr_in6*>(&address.storage);
}

SocketAddress from_v4(in_addr host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr = host;
  return SocketAddress::of(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

SocketAddress from_v6(const in6_addr& host, std::uint16_t port, std::uint32_t scope = 0) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = host;
  address.sin6_scope_id = scope;
  return SocketAddress::of(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<SocketAddress> numeric(const std::string& host, std::uint16_t port) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return from_v4(v4, port);
  const auto percent = host.find('%');
  in6_addr v6{};
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6) != 1) return std::nullopt;
  if (percent == std::string::npos) return from_v6(v6, port);
  const unsigned scope = ::if_nametoindex(host.substr(percent + 1).c_str());
  if (scope == 0) return std::nullopt;
  return from_v6(v6, port, scope);
}

Status look_up(const std::string& host, std::uint16_t port, int family, std::vector<SocketAddress>& found) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (code != 0) return fail(ErrorCode::system, fmt::format("the host name '{}': {}", host, ::gai_strerror(code)));
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next)
    found.push_back(SocketAddress::of(entry->ai_addr, entry->ai_addrlen).with_port(port));
  ::freeaddrinfo(list);
  return {};
}

}  // namespace

SocketAddress SocketAddress::of(const sockaddr* address, socklen_t bytes) {
  SocketAddress result;
  result.length = std::min<socklen_t>(bytes, sizeof result.storage);
  std::memcpy(&result.storage, address, result.length);
  return result;
}

SocketAddress SocketAddress::any(int family, std::uint16_t port) {
  if (family == AF_INET6) return from_v6(in6addr_any, port);
  return from_v4({htonl(INADDR_ANY)}, port);
}

SocketAddress SocketAddress::loopback(int family, std::uint16_t port) {
  if (family == AF_INET6) return from_v6(in6addr_loopback, port);
  return from_v4({htonl(INADDR_LOOPBACK)}, port);
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  auto parts = parse_host_port(text);
  if (!parts) return tl::unexpected(parts.error());
  auto address = numeric(parts->host, parts->port);
  if (!address)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a numeric address with a port", text));
  return *address;
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(as_v4(*this).sin_port);
  if (family() == AF_INET6) return ntohs(as_v6(*this).sin6_port);
  return 0;
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress result = *this;
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&result.storage)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&result.storage)->sin6_port = htons(port);
  return result;
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return (ntohl(as_v4(*this).sin_addr.s_addr) >> 24) == 127;
  if (family() != AF_INET6) return false;
  const in6_addr& host = as_v6(*this).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&host) || (IN6_IS_ADDR_V4MAPPED(&host) && host.s6_addr[12] == 127);
}

bool SocketAddress::is_link_local() const {
  if (family() == AF_INET) return (ntohl(as_v4(*this).sin_addr.s_addr) >> 16) == 0xa9fe;
  if (family() != AF_INET6) return false;
  const in6_addr& host = as_v6(*this).sin6_addr;
  return IN6_IS_ADDR_LINKLOCAL(&host);
}

bool SocketAddress::is_any() const {
  if (family() == AF_INET) return as_v4(*this).sin_addr.s_addr == htonl(INADDR_ANY);
  if (family() != AF_INET6) return false;
  const in6_addr& host = as_v6(*this).sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&host);
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) return ::inet_ntop(AF_INET, &as_v4(*this).sin_addr, text, sizeof text);
  if (family() != AF_INET6) return "(no address)";
  std::string name = ::inet_ntop(AF_INET6, &as_v6(*this).sin6_addr, text, sizeof text);
  char scope[IF_NAMESIZE] = "";
  if (as_v6(*this).sin6_scope_id != 0 && ::if_indextoname(as_v6(*this).sin6_scope_id, scope) != nullptr)
    name += fmt::format("%{}", scope);
  return name;
}

std::string SocketAddress::to_string() const {
  if (family() == AF_INET) return fmt::format("{}:{}", host(), port());
  if (family() == AF_INET6) return fmt::format("[{}]:{}", host(), port());
  return host();
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  if (family() != other.family() || port() != other.port()) return false;
  if (family() == AF_INET) return as_v4(*this).sin_addr.s_addr == as_v4(other).sin_addr.s_addr;
  if (family() != AF_INET6) return true;
  return as_v6(*this).sin6_scope_id == as_v6(other).sin6_scope_id &&
         std::memcmp(&as_v6(*this).sin6_addr, &as_v6(other).sin6_addr, sizeof(in6_addr)) == 0;
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not host:port or [address]:port", text));
  };
  if (colon == std::string_view::npos || colon == 0) return bad();
  std::string_view host = text.substr(0, colon);
  const auto port = parse_port(text.substr(colon + 1));
  if (!port) return bad();
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return bad();
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  return HostPort{std::string(host), *port};
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, Deadline deadline, int family) {
  if (const auto address = numeric(host, port)) {
    if (family != AF_UNSPEC && address->family() != family)
      return fail(ErrorCode::invalid_argument, fmt::format("{} is not of the address family asked for", host));
    return std::vector{*address};
  }
  auto found = std::make_shared<std::vector<SocketAddress>>();
  const auto work = [=] { return look_up(host, port, family, *found); };
  if (auto status = run_before(deadline, fmt::format("resolving the host name '{}'", host), work); !status)
    return tl::unexpected(status.error());
  return std::move(*found);
}

Result<PortRange> parse_port_range(std::string_view text) {
  if (text.empty()) return PortRange{};
  const auto dash = text.find('-');
  const auto first = parse_port(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_port(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first)
    return fail(ErrorCode::invalid_argument,
                fmt::format("the port range '{}' is not first-last with 1 <= first <= last <= 65535", text));
  return PortRange{*first, *last};
}

Result<PortRange> port_range_setting() { return parse_port_range(settings().port_range); }

}  // namespace tutti
