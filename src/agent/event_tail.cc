#include "agent/event_tail.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <set>

#include "monitor/folder.hpp"
#include "monitor/read/recording.hpp"

namespace tutti::agent {
namespace {

constexpr double kListEvery = 1.0;  // seconds

bool read_at(int file, std::size_t offset, std::span<std::byte> to) {
  return ::pread(file, to.data(), to.size(), static_cast<off_t>(offset)) == static_cast<ssize_t>(to.size());
}

std::uint64_t event_count(int file) {
  std::uint64_t count = 0;
  read_at(file, offsetof(monitor::Head, event_count), std::as_writable_bytes(std::span(&count, 1)));
  return count;
}

Result<monitor::ProcessView> read_events(int file, std::size_t bytes, bool alive) {
  const monitor::RecordingSource source{
      bytes, [file](std::size_t offset, std::span<std::byte> to) { return read_at(file, offset, to); }};
  monitor::Detail detail;
  detail.events = true;
  return monitor::read_recording(source, alive, detail);
}

double seconds_from_monotonic_to_day(double now) {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count() - now;
}

}  // namespace

std::vector<SeenEvent> EventTail::look(double now) {
  is_first_look_ = begun_ == 0;
  if (is_first_look_) begun_ = now;
  realtime_offset_ = seconds_from_monotonic_to_day(now);
  if (now >= next_list_) list(now);
  for (auto& [path, recording] : recordings_)
    if (!recording.is_over && event_count(recording.file.get()) != recording.cursor.next()) read(recording);
  std::stable_sort(found_.begin(), found_.end(),
                   [](const SeenEvent& a, const SeenEvent& b) { return a.event.at < b.event.at; });
  return std::exchange(found_, {});
}

void EventTail::list(double now) {
  next_list_ = now + kListEvery;
  std::map<std::string, std::set<std::string>> there;  // by folder
  std::set<std::string> all;
  for (const std::string& folder : folders_.empty() ? monitor::recording_folders() : folders_) {
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed))
      if (entry->path().extension() == monitor::kSuffix) there[folder].insert(entry->path());
    all.insert(there[folder].begin(), there[folder].end());
  }
  for (auto& [path, recording] : recordings_)
    if (!recording.is_over && (all.count(path) == 0 || !monitor::is_written(recording.file.get())))
      finish(recording, now);
  std::erase_if(recordings_, [&](const auto& each) { return all.count(each.first) == 0; });
  for (const auto& [folder, paths] : there) open_new(folder, paths, now);
}

// A file that was new and is over already is read at once, so that it does not count among those that are open.
void EventTail::open_new(const std::string& folder, const std::set<std::string>& paths, double now) {
  std::size_t open_here = 0, left_out = 0;
  for (const std::string& path : paths)
    if (const auto known = recordings_.find(path); known != recordings_.end() && known->second.file) ++open_here;
  for (const std::string& path : paths) {
    if (recordings_.count(path) != 0) continue;
    if (open_here >= folder_limit()) {
      ++left_out;
      continue;
    }
    open(path, is_first_look_);
    const auto opened = recordings_.find(path);
    if (opened == recordings_.end()) continue;
    if (!monitor::is_written(opened->second.file.get())) finish(opened->second, now);
    if (opened->second.file) ++open_here;
  }
  if (left_out > 0)
    log_.warn(fmt::format("{}: {} recordings are not followed; of one folder, {} are open at a time (see ulimit -n)",
                          folder, left_out, folder_limit()),
              now);
}

std::size_t EventTail::folder_limit() {
  constexpr rlim_t kLeast = 8, kMost = 8192;
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return kLeast;
  return static_cast<std::size_t>(std::clamp<rlim_t>(descriptors.rlim_cur / 8, kLeast, kMost));
}

std::size_t EventTail::open_files() const {
  return static_cast<std::size_t>(std::count_if(recordings_.begin(), recordings_.end(),
                                                [](const auto& each) { return static_cast<bool>(each.second.file); }));
}

void EventTail::open(const std::string& path, bool is_old) {
  Recording recording;
  // Without O_NONBLOCK, whoever put a pipe there would have us wait.
  recording.file = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found {};
  if (!recording.file || ::fstat(recording.file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return;
  recording.bytes = static_cast<std::size_t>(found.st_size);
  recording.is_old = is_old;
  recordings_[path] = std::move(recording);
}

void EventTail::read(Recording& recording) {
  Result<monitor::ProcessView> process = read_events(recording.file.get(), recording.bytes, true);
  if (!process) {
    // It is no recording we know, and will not become one.
    recording.close();
    return;
  }
  for (auto& [event, missed] : recording.cursor.take(std::move(process->events), process->event_count))
    if (!recording.is_old || event.at >= begun_ - since_) add(*process, std::move(event), is_first_look_ ? 0 : missed);
}

void EventTail::finish(Recording& recording, double now) {
  read(recording);
  if (recording.is_over) return;
  const Result<monitor::ProcessView> process = read_events(recording.file.get(), recording.bytes, false);
  recording.close();
  if (!process || process->ended || is_first_look_) return;
  monitor::EventView event;
  event.at = now;
  add(*process, event, 0);
  found_.back().source = SeenEvent::Source::process_killed;
}

void EventTail::add(const monitor::ProcessView& process, monitor::EventView event, std::uint64_t missed) {
  SeenEvent seen;
  seen.event = std::move(event);
  seen.missed = missed;
  seen.realtime_offset = realtime_offset_;
  seen.pid = process.pid;
  seen.host = process.host;
  seen.command = process.command;
  seen.launcher_job = process.launcher_job;
  found_.push_back(std::move(seen));
}

}  // namespace tutti::agent
