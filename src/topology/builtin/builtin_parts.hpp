// What the files of the builtins share: the values of a spec, and the makers. Makers throw InputError for values that
// make no topology; make_builtin catches it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/builtin/builtin.hpp"

namespace tutti {

/// The parameters of a builtin: as given, else standard.
class BuiltinValues {
 public:
  explicit BuiltinValues(std::map<std::string, std::string, std::less<>> values) : values_(std::move(values)) {}

  std::string_view text(std::string_view name) const { return values_.find(name)->second; }
  int integer(std::string_view name, int least, int most) const;
  /// "4x8x2"
  std::vector<int> sizes(std::string_view name, int least, int most) const;
  Rational bandwidth(std::string_view name) const;
  Rational latency(std::string_view name) const;
  Rational ratio(std::string_view name) const;

 private:
  [[noreturn]] void refuse(std::string_view name, std::string_view expected) const;

  std::map<std::string, std::string, std::less<>> values_;
};

inline constexpr int kMostRanks = 1 << 17;

std::string in_node(int node, std::string_view what);
std::string in_node(int node, std::string_view what, int number);

Topology make_ndv2(const BuiltinValues& values);
Topology make_dgx2(const BuiltinValues& values);
Topology make_dgx_a100(const BuiltinValues& values);
Topology make_dgx_h100(const BuiltinValues& values);
Topology make_mi250(const BuiltinValues& values);
Topology make_torus2d(const BuiltinValues& values);
Topology make_torus3d(const BuiltinValues& values);
Topology make_mesh(const BuiltinValues& values);
Topology make_hypercube(const BuiltinValues& values);
Topology make_ring(const BuiltinValues& values);

}  // namespace tutti
