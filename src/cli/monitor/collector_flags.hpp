// Where a collector is and what it is to be proven, as options of the commands that speak to it. Plain functions.
#pragma once

#include <string>

#include "net/handshake.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace CLI {
class App;
}

namespace tutti::cli {

struct CollectorFlags {
  std::string collector;   // HOST:PORT; empty: none
  std::string token_file;  // empty: this user's own secret, which serves on loopback
  bool insecure = false;
};

/// Adds --collector, --token-file and --insecure to a command that asks a collector.
void add_collector_flags(CLI::App& command, CollectorFlags& flags);

Result<HostPort> collector_address(const CollectorFlags& flags);
/// Of the token, or without one.
Result<JobKey> collector_key(const CollectorFlags& flags);

/// The first line of a file, of 16 letters or more.
Result<std::string> read_token(const std::string& path);

}  // namespace tutti::cli
