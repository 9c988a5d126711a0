#include "diagnosis/recordings/process_load.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tutti::diagnosis {

std::map<int, double> read_starvation(const monitor::Snapshot& snapshot) {
  std::map<int, double> seconds;
  for (const monitor::ProcessView& process : snapshot.processes) {
    if (!process.alive) continue;
    std::error_code ignored;
    const std::filesystem::directory_iterator tasks(fmt::format("/proc/{}/task", process.pid), ignored);
    for (const auto& task : tasks) {
      // Nanoseconds on a core, nanoseconds ready and without one, turns.
      std::ifstream file(task.path() / "schedstat");
      double ran = 0, waited = 0;
      if (file >> ran >> waited) seconds[process.pid] = std::max(seconds[process.pid], 1e-9 * waited);
    }
  }
  return seconds;
}

}  // namespace tutti::diagnosis
