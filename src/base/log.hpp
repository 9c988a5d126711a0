// One line per event to standard error, or to TUTTI_LOG_FILE. An error is logged once, by the function that first
// knows it; callers pass it on. Level by TUTTI_LOG: off, error, warn (default), info, debug.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace tutti::log {

enum class Level { debug, info, warn, error, off };

bool enabled(Level level);
/// From now on nothing below this; what TUTTI_LOG leaves out stays out.
void raise_level(Level level);
void write(Level level, std::string_view line);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti::log
