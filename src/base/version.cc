#include "base/version.hpp"

#include <fmt/core.h>

namespace tutti {

std::string Version::to_string() const { return fmt::format("{}.{}.{}", major, minor, patch); }

Version library_version() { return {TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH}; }

}  // namespace tutti
