#include "agent/event_tail.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <set>

#include "monitor/folder.hpp"
#include "monitor/recording.hpp"

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
  const monitor::Source source{
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
  std::set<std::string> there;
  for (const std::string& folder : folders_.empty() ? monitor::recording_folders() : folders_) {
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed))
      if (entry->path().extension() == monitor::kSuffix) there.insert(entry->path());
  }
  for (const std::string& path : there)
    if (recordings_.count(path) == 0) open(path, is_first_look_);
  for (auto& [path, recording] : recordings_)
    if (!recording.is_over && (there.count(path) == 0 || !monitor::is_written(recording.file.get())))
      finish(recording, now);
  std::erase_if(recordings_, [&](const auto& each) { return there.count(each.first) == 0; });
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
    recording.is_over = true;
    return;
  }
  for (auto& [event, missed] : recording.cursor.take(std::move(process->events), process->event_count))
    if (!recording.is_old || event.at >= begun_ - since_) add(*process, std::move(event), is_first_look_ ? 0 : missed);
}

void EventTail::finish(Recording& recording, double now) {
  read(recording);
  const Result<monitor::ProcessView> process = read_events(recording.file.get(), recording.bytes, false);
  recording.is_over = true;
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
