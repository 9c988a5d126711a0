#include "tutti/version.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/support/command.hpp"

namespace tutti::cli {

void add_version(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("version", "Print the version");
  command->callback([&status] {
    fmt::print("tutti {}\n", version());
    status = 0;
  });
}

}  // namespace tutti::cli
