#include "cli/support/command.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

namespace tutti::cli {

int report_error(std::string_view command, std::string_view message, int status) {
  fmt::print(stderr, "tutti {}: {}\n", command, message);
  return status;
}

void become_a_service() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, 65536);
    ::setrlimit(RLIMIT_NOFILE, &descriptors);
  }
  ::signal(SIGPIPE, SIG_IGN);  // a reader of our output that is gone is an error like others
}

}  // namespace tutti::cli
