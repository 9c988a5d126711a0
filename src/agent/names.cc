#include "agent/names.hpp"

#include <fmt/core.h>

#include <string_view>

#include "monitor/layout.hpp"
#include "monitor/read/cluster_report.hpp"

namespace tutti::agent {
namespace {

struct Size {
  std::uint64_t number;
  std::string_view unit;
};

Size readable(std::uint64_t bytes) {
  if (bytes >= 1 << 20) return {bytes >> 20, "MB"};
  if (bytes >= 1 << 10) return {bytes >> 10, "KB"};
  return {bytes, "B"};
}

}  // namespace

std::string size_range(int size_class) {
  const Size from = readable(size_class == 0 ? 0 : monitor::size_class_limit(size_class - 1));
  if (size_class + 1 == monitor::kSizeClasses) return fmt::format(">{}{}", from.number, from.unit);
  const Size to = readable(monitor::size_class_limit(size_class));
  return fmt::format("{}{}-{}{}", from.number, from.unit == to.unit ? "" : from.unit, to.number, to.unit);
}

double bus_factor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return (n - 1) / n;
    default:
      return 1;
  }
}

std::string communicator_name(const std::string& name, std::uint64_t id) {
  return name.empty() ? monitor::short_name(id) : name;
}

}  // namespace tutti::agent
