#include "cli/support/command.hpp"

#include <fmt/core.h>

namespace tutti::cli {

int report_error(std::string_view command, std::string_view message, int status) {
  fmt::print(stderr, "tutti {}: {}\n", command, message);
  return status;
}

}  // namespace tutti::cli
