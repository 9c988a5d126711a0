#include "cli/support/terminal.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

namespace tutti::cli {

bool wants_color(int descriptor) {
  const char* terminal = std::getenv("TERM");
  const char* refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  return terminal != nullptr && std::string_view(terminal) != "dumb" && ::isatty(descriptor) == 1;
}

std::string paint(std::string_view text, Color color, bool enabled) {
  static constexpr int kCodes[] = {31, 32, 33, 34, 35, 36, 1, 2};
  if (!enabled) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<int>(color)], text);
}

}  // namespace tutti::cli
