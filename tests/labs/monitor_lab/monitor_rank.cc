// One rank of a job whose lanes are watched: broadcasts from rank 0, one after the other, with a pause between them.
// On SIGUSR1 it enters the next one late. Rank 0 ends the job when the stop file is there. Exits with 1 and says why
// when an operation fails.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.hpp"

namespace {

struct Arguments {
  std::size_t bytes = 8 << 20;
  std::int64_t pause_us = 0;
  std::int64_t late_us = 40000;
  double seconds = 60;
  std::string stop_file;
};

volatile std::sig_atomic_t g_late = 0;

using Clock = std::chrono::steady_clock;

bool is_over(const Arguments& arguments, Clock::time_point end) {
  struct stat found {};
  return Clock::now() > end || ::stat(arguments.stop_file.c_str(), &found) == 0;
}

tutti::Status run(const Arguments& arguments) {
  tutti::Options options = tutti::Options::from_environment();
  options.timeout = 20;
  auto communicator = tutti::Communicator::create_from_environment(options);
  if (!communicator) return tl::unexpected(communicator.error());
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arguments.seconds));
  std::vector<std::uint8_t> buffer(arguments.bytes);
  while (true) {
    if (g_late != 0) {
      g_late = 0;
      std::this_thread::sleep_for(std::chrono::microseconds(arguments.late_us));
    }
    buffer[0] = communicator->rank() == 0 && is_over(arguments, end) ? 1 : 0;
    if (auto done = communicator->broadcast(buffer.data(), buffer.data(), buffer.size(), tutti::DataType::uint8, 0);
        !done)
      return done;
    if (buffer[0] != 0) return {};
    if (arguments.pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(arguments.pause_us));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("One rank of a job whose lanes are watched");
  app.add_option("--bytes", arguments.bytes, "of a broadcast")->capture_default_str();
  app.add_option("--pause-us", arguments.pause_us, "between broadcasts")->capture_default_str();
  app.add_option("--late-us", arguments.late_us, "by which it is late on SIGUSR1")->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "until it ends by itself")->capture_default_str();
  app.add_option("--stop-file", arguments.stop_file, "ends the job when it is there")->required();
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGUSR1, [](int) { g_late = 1; });
  if (auto done = run(arguments); !done) {
    std::fprintf(stderr, "monitor_rank: %s\n", done.error().to_string().c_str());
    return 1;
  }
  return 0;
}
