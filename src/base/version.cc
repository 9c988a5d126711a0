#include "base/version.hpp"

#include <fmt/core.h>

#include "tutti/version.hpp"

namespace tutti {

std::string Version::to_string() const { return fmt::format("{}.{}.{}", major, minor, patch); }

Version library_version() { return {TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH}; }

const char* version() { return TUTTI_VERSION_STRING; }

}  // namespace tutti
