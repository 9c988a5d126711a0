#include "net/interfaces.hpp"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <memory>
#include <optional>
#include <span>

#include "base/settings.hpp"

namespace tutti {
namespace {

template <typename T>
std::optional<T> read_number(const std::string& path, int skipped = 0) {
  std::ifstream file(path);
  T value{};
  for (int i = 0; i <= skipped; ++i)
    if (!(file >> value)) return std::nullopt;
  return value;
}

int speed_of(const std::string& name) {
  // Reading fails with EINVAL on interfaces that have no speed; virtual ones say -1.
  const int speed = read_number<int>("/sys/class/net/" + name + "/speed").value_or(-1);
  return speed > 0 ? speed : -1;
}

// A rank runs on the cores next to its device; the port next to those is the one to use first.
int distance_of(const std::string& name) {
  const auto node = read_number<int>("/sys/class/net/" + name + "/device/numa_node");
  unsigned own_node = 0;
  if (!node || *node < 0 || ::getcpu(nullptr, &own_node) != 0) return 0;
  return read_number<int>(fmt::format("/sys/devices/system/node/node{}/distance", own_node), *node).value_or(0);
}

// Made by container engines and virtual machine managers for this host's own use; other hosts cannot be reached there.
bool is_host_internal(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"docker", "virbr", "veth",   "br-", "cni", "flannel",
                                                   "cali",   "cbr",   "podman", "lxc", "lxd", "dummy"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

int rank_of_address(const SocketAddress& address) {
  return (address.is_link_local() ? 2 : 0) + (address.family() == AF_INET ? 0 : 1);
}

void keep_usable_addresses(Interface& interface, int family) {
  auto& addresses = interface.addresses;
  std::erase_if(addresses, [&](const SocketAddress& a) { return family != AF_UNSPEC && a.family() != family; });
  std::stable_sort(addresses.begin(), addresses.end(), [](const SocketAddress& a, const SocketAddress& b) {
    return rank_of_address(a) < rank_of_address(b);
  });
  if (!addresses.empty() && !addresses.front().is_link_local())
    std::erase_if(addresses, [](const SocketAddress& a) { return a.is_link_local(); });
}

std::string listing(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& interface : all) {
    if (!text.empty()) text += ", ";
    text += interface.name;
    if (!interface.up)
      text += " (down)";
    else if (!interface.running)
      text += " (no carrier)";
    else if (interface.addresses.empty())
      text += " (no address)";
    else
      text += fmt::format(" ({})", interface.addresses.front().host());
  }
  return text.empty() ? "none" : text;
}

const char* family_name(int family) {
  if (family == AF_INET) return "an IPv4";
  if (family == AF_INET6) return "an IPv6";
  return "an";
}

}  // namespace

Result<std::vector<Interface>> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("listing the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string name = entry->ifa_name;
    auto found = std::find_if(all.begin(), all.end(), [&](const Interface& known) { return known.name == name; });
    if (found == all.end()) {
      all.push_back({name,
                     {},
                     (entry->ifa_flags & IFF_UP) != 0,
                     (entry->ifa_flags & IFF_RUNNING) != 0,
                     (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     speed_of(name),
                     distance_of(name)});
      found = all.end() - 1;
    }
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET) found->addresses.push_back(SocketAddress::of(entry->ifa_addr, sizeof(sockaddr_in)));
    if (family == AF_INET6) found->addresses.push_back(SocketAddress::of(entry->ifa_addr, sizeof(sockaddr_in6)));
  }
  return all;
}

namespace {

/// Where the bytes of the host lie, in network order.
std::span<const std::uint8_t> host_bytes(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return {reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr), 4};
  return {reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr), 16};
}

unsigned count_bits(std::span<const std::uint8_t> mask) {
  unsigned bits = 0;
  for (const std::uint8_t byte : mask) bits += static_cast<unsigned>(std::popcount(byte));
  return bits;
}

}  // namespace

bool OwnAddress::shares_subnet(const SocketAddress& other) const {
  if (other.family() != address.family()) return false;
  const auto a = host_bytes(address.raw());
  const auto b = host_bytes(other.raw());
  for (unsigned bit = 0; bit < prefix; ++bit)
    if (((a[bit / 8] ^ b[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  return true;
}

std::vector<OwnAddress> own_addresses() {
  ifaddrs* list = nullptr;
  std::vector<OwnAddress> all;
  if (::getifaddrs(&list) != 0) return all;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    all.push_back({SocketAddress::of(entry->ifa_addr, bytes), count_bits(host_bytes(entry->ifa_netmask))});
  }
  return all;
}

bool fits_pattern(std::string_view name, std::string_view pattern) {
  const bool exclude = !pattern.empty() && pattern.front() == '^';
  if (exclude) pattern.remove_prefix(1);
  const bool exact = !pattern.empty() && pattern.front() == '=';
  if (exact) pattern.remove_prefix(1);
  bool listed = false;
  while (!pattern.empty()) {
    const auto comma = std::min(pattern.find(','), pattern.size());
    const std::string_view item = pattern.substr(0, comma);
    pattern.remove_prefix(std::min(comma + 1, pattern.size()));
    if (!item.empty()) listed = listed || (exact ? name == item : name.substr(0, item.size()) == item);
  }
  return listed != exclude;
}

Result<std::vector<Interface>> choose_interfaces(std::vector<Interface> all, std::string_view pattern, int family) {
  std::vector<Interface> usable;
  for (Interface interface : all) {
    keep_usable_addresses(interface, family);
    if (interface.up && interface.running && !interface.addresses.empty()) usable.push_back(std::move(interface));
  }
  std::stable_sort(usable.begin(), usable.end(), [](const Interface& a, const Interface& b) {
    return std::pair(-a.speed, a.distance) < std::pair(-b.speed, b.distance);
  });
  const auto of_class = [&](auto predicate) {
    std::vector<Interface> chosen;
    std::copy_if(usable.begin(), usable.end(), std::back_inserter(chosen), predicate);
    return chosen;
  };
  // What a pattern only excludes is still chosen by class: "^eth0" does not ask for loopback.
  const bool names_wanted = !pattern.empty() && pattern.front() != '^';
  const auto fits = [&](const Interface& i) { return pattern.empty() || fits_pattern(i.name, pattern); };
  std::vector<Interface> chosen;
  if (names_wanted) chosen = of_class(fits);
  if (!names_wanted)
    chosen = of_class([&](const Interface& i) { return fits(i) && !i.loopback && !is_host_internal(i.name); });
  if (!names_wanted && chosen.empty()) chosen = of_class([&](const Interface& i) { return fits(i) && !i.loopback; });
  if (!names_wanted && chosen.empty()) chosen = of_class(fits);
  if (!chosen.empty()) return chosen;
  const std::string wanted = pattern.empty() ? std::string() : fmt::format(" that fits '{}'", pattern);
  return fail(ErrorCode::invalid_argument, fmt::format("no network interface{} is up with {} address; there is: {}",
                                                       wanted, family_name(family), listing(all)));
}

Result<std::vector<Interface>> chosen_interfaces(Result<std::vector<Interface>> all) {
  auto family = parse_family(settings().family);
  if (!family) return tl::unexpected(family.error());
  if (!all) return all;
  return choose_interfaces(std::move(*all), settings().interfaces, *family);
}

Result<int> parse_family(std::string_view text) {
  if (text.empty()) return AF_UNSPEC;
  if (text == "ipv4") return AF_INET;
  if (text == "ipv6") return AF_INET6;
  return fail(ErrorCode::invalid_argument, fmt::format("the address family '{}' is neither ipv4 nor ipv6", text));
}

}  // namespace tutti
