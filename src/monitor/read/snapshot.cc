#include "monitor/read/snapshot.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/fd.hpp"
#include "base/settings.hpp"
#include "monitor/folder.hpp"
#include "monitor/read/recording.hpp"
#include "tutti/monitor.hpp"

namespace tutti::monitor {
namespace {

bool read_all(int file, std::size_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t count = ::pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (count <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::size_t>(count);
  }
  return true;
}

/// Whether a living process stands still; false where it is not to be found, as from another pid namespace.
bool is_stopped(const ProcessView& process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process.pid));
  std::string stat;
  if (!std::getline(file, stat)) return false;
  // "PID (name) T ...", and the name may hold anything.
  const std::size_t begin = stat.find('('), end = stat.rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end + 2 >= stat.size()) return false;
  const std::string name = stat.substr(begin + 1, end - begin - 1);
  const char state = stat[end + 2];
  return process.command.starts_with(name) && (state == 'T' || state == 't');
}

/// "/dev/shm/tutti-UID" that belongs to UID: what another user put there says nothing of that one's processes.
bool is_folder_of_its_user(const std::string& path) {
  static constexpr std::string_view kPrefix = "/dev/shm/tutti-";
  if (!path.starts_with(kPrefix)) return false;
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         path.substr(kPrefix.size()) == std::to_string(found.st_uid);
}

/// Nothing where the file went away meanwhile, as that of a process does that leaves in order.
Result<std::optional<ProcessView>> read_file(const std::string& path, const Detail& detail) {
  // Without O_NONBLOCK, whoever put a pipe there would have us wait.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) return system_error("it cannot be opened");
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return system_error("it cannot be looked at");
  if (!S_ISREG(found.st_mode)) return fail(ErrorCode::invalid_argument, "it is not a file");
  const RecordingSource source{
      static_cast<std::size_t>(found.st_size),
      [&](std::size_t offset, std::span<std::byte> to) { return read_all(file.get(), offset, to); }};
  const bool alive = is_written(file.get());
  Result<ProcessView> process = read_recording(source, alive, detail);
  if (!process) return tl::unexpected(process.error());
  process->file = path;
  process->alive = alive;
  process->stopped = alive && is_stopped(*process);
  return *std::move(process);
}

void read_folder(const std::string& folder, const Detail& detail, Snapshot& snapshot) {
  std::error_code failed;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().extension() == kSuffix) paths.push_back(entry->path());
  // A folder that nobody has made yet holds nothing.
  if (failed && failed != std::errc::no_such_file_or_directory)
    snapshot.problems.push_back(fmt::format("{} cannot be read: {}", folder, failed.message()));
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    Result<std::optional<ProcessView>> process = read_file(path, detail);
    if (!process)
      snapshot.problems.push_back(fmt::format("{} cannot be read: {}", path, process.error().message));
    else if (*process)
      snapshot.processes.push_back(std::move(**process));
  }
}

double realtime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

std::vector<std::string> recording_folders() {
  if (!settings().monitor_dir.empty()) return {settings().monitor_dir};
  std::vector<std::string> folders{default_folder()};
  if (::geteuid() != 0) return folders;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry("/dev/shm", ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string path = entry->path();
    if (path != folders.front() && is_folder_of_its_user(path)) folders.push_back(path);
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

Snapshot take_snapshot(const std::vector<std::string>& folders, const Detail& detail) {
  Snapshot snapshot;
  for (const std::string& folder : folders) read_folder(folder, detail, snapshot);
  std::stable_sort(snapshot.processes.begin(), snapshot.processes.end(),
                   [](const ProcessView& a, const ProcessView& b) { return a.pid < b.pid; });
  // Last, so that nothing that was read lies in the future.
  snapshot.now = 1e-9 * static_cast<double>(monotonic_nanoseconds());
  snapshot.realtime_offset = realtime() - snapshot.now;
  return snapshot;
}

std::string peer_of(const LaneView& lane) { return lane.peer < 0 ? lane.peer_name : fmt::format("rank {}", lane.peer); }

// The words for events are the same inside the process and outside.
std::string corruption_of(const LaneView& lane) {
  std::string text = "corrupted:";
  if (lane.corrupted_chunks != 0)
    text += fmt::format(" {} of {} chunks that were checked", lane.corrupted_chunks,
                        lane.checked_chunks + lane.corrupted_chunks);
  if (lane.returned_chunks != 0)
    text += fmt::format("{} {} at the other end", lane.corrupted_chunks != 0 ? "," : "", lane.returned_chunks);
  return text == "corrupted:" ? "corrupted at the other end" : text;
}

const char* name_of(EventKind kind) { return tutti::name_of(static_cast<MonitorEvent::Kind>(kind)).data(); }

const char* name_of(Cause cause) { return tutti::name_of(static_cast<MonitorEvent::Cause>(cause)).data(); }

const char* name_of(Condition condition) {
  static constexpr const char* kNames[] = {"normal", "dropped", "stalled"};
  return kNames[static_cast<std::size_t>(condition)];
}

const char* name_of(CommunicatorRecord::State state) {
  static constexpr const char* kNames[] = {"free", "alive", "broken", "closed"};
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace tutti::monitor
