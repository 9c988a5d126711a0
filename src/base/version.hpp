// The library's version, as compared between ranks.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

struct Version {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  std::uint16_t patch = 0;

  /// Ranks may differ in the patch only.
  bool works_with(const Version& other) const { return major == other.major && minor == other.minor; }
  std::string to_string() const;  // "0.1.0"
  bool operator==(const Version&) const = default;
};

Version library_version();

}  // namespace tutti
