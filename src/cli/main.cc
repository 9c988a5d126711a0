#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "cli/support/command.hpp"

namespace {

/// What was printed counts only once it is written: a full disk is no success.
int finish(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "tutti: cannot write to standard output: %s\n", std::strerror(errno));
  return status == 0 ? 1 : status;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::cli;
  CLI::App app("tutti: collectives between ranks, on this machine and across machines", "tutti");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of all commands");
  app.footer("`tutti COMMAND --help` explains a command, with examples.");
  const Arguments arguments(argv, argv + argc);
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  int status = 0;
  add_run(app, Arguments(separator, arguments.end()), status);
  add_bench(app, arguments, status);
  add_demo(app, arguments, status);
  add_collector(app, status);
  add_diagnose(app, status);
  add_doctor(app, status);
  add_env(app, status);
  add_agent(app, status);
  add_events(app, status);
  add_program(app, status);
  add_simulate(app, status);
  add_status(app, status);
  add_synth(app, status);
  add_top(app, status);
  add_topo(app, status);
  add_topo_measure(*app.get_subcommand("topo"), arguments, status);
  add_trace(app, status);
  add_tune(app, arguments, status);
  add_version(app, status);
  try {
    app.parse(static_cast<int>(separator - arguments.begin()), argv);
  } catch (const CLI::ParseError& error) {
    return finish(app.exit(error) == 0 ? 0 : kBadUsage);
  } catch (const std::system_error& error) {
    // Printing throws when a buffer is full and cannot be written.
    std::fprintf(stderr, "tutti: %s\n", error.what());
    return status == 0 ? 1 : status;
  }
  return finish(status);
}
