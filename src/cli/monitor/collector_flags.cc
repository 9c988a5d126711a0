#include "cli/monitor/collector_flags.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "agent/report/collector_link.hpp"

namespace tutti::cli {

void add_collector_flags(CLI::App& command, CollectorFlags& flags) {
  auto* const collector =
      command
          .add_option("--collector", flags.collector, "ask the collector at HOST:PORT, which knows all hosts of a job")
          ->option_text("HOST:PORT");
  command.add_option("--token-file", flags.token_file, "the collector's token is the first line of FILE")
      ->option_text("FILE")
      ->needs(collector);
  command.add_flag("--insecure", flags.insecure, "the collector is elsewhere, and wants no token")->needs(collector);
}

Result<HostPort> collector_address(const CollectorFlags& flags) {
  auto where = parse_host_port(flags.collector);
  if (!where)
    return fail(ErrorCode::invalid_argument, fmt::format("--collector {}: expected HOST:PORT", flags.collector));
  return where;
}

Result<JobKey> collector_key(const CollectorFlags& flags) {
  if (flags.token_file.empty()) return agent::key_of_token("", flags.insecure);
  const auto token = read_token(flags.token_file);
  if (!token) return tl::unexpected(token.error());
  return agent::key_of_token(*token, flags.insecure);
}

Result<std::string> read_token(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  if (!file || !std::getline(file, token) || token.size() < 16)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--token-file {}: its first line must be a token of 16 letters or more", path));
  return token;
}

}  // namespace tutti::cli
