#include "diagnosis/verdict.hpp"

#include <fmt/core.h>

namespace tutti::diagnosis {

std::string key_of(const Verdict& verdict) {
  std::string key(name_of(verdict.fault));
  for (const Suspect& each : verdict.suspects)
    key += fmt::format(" {}:{}:{}:{}>{}", each.host, each.pid, each.rank, each.path, each.peer);
  if (verdict.suspects.empty()) key += " " + verdict.place;
  return key;
}

}  // namespace tutti::diagnosis
