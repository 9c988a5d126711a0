#include "net/rails.hpp"

namespace tutti {

std::vector<Route> match_rails(const std::vector<OwnAddress>& own, const std::vector<SocketAddress>& remote) {
  std::vector<Route> rails;
  for (std::size_t number = 0; number < remote.size(); ++number) {
    std::vector<const OwnAddress*> near;
    std::vector<const OwnAddress*> same_family;
    for (const OwnAddress& each : own) {
      if (each.shares_subnet(remote[number])) near.push_back(&each);
      if (each.address.family() == remote[number].family()) same_family.push_back(&each);
    }
    const auto& choice = near.empty() ? same_family : near;
    Route rail = Route::to(remote[number]);
    if (own.size() > 1 && !choice.empty()) rail.source = choice[number % choice.size()]->address.with_port(0);
    rails.push_back(std::move(rail));
  }
  return rails;
}

}  // namespace tutti
