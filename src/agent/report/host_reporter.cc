#include "agent/report/host_reporter.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "base/hash.hpp"
#include "base/settings.hpp"
#include "diagnosis/recordings/process_load.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"
#include "net/event_loop.hpp"

namespace tutti::agent {
namespace {

using diagnosis::LaneFacts;
using diagnosis::Telemetry;

constexpr double kPause = 1, kIncidentPause = 0.25;         // seconds between looks
constexpr double kAlivePause = 1;                           // seconds without a word from us
constexpr std::size_t kMostBacklog = std::size_t{1} << 20;  // bytes that the collector has not taken
constexpr std::size_t kMostFromCollector = 1024;            // bytes of a frame
constexpr std::size_t kMostSummary = std::size_t{4} << 20;  // as the collector takes them

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 128> target{};
  const ssize_t length = ::readlink(path, target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Whether a verdict may rest on it.
bool is_remarkable(const LaneFacts& lane) {
  return lane.state == LaneFacts::State::down || lane.losses > 0 || lane.dropped;
}

class Fingerprint {
 public:
  void add(std::uint64_t value) { hash_ = mix(hash_, value); }
  void add(const monitor::CommunicatorView& view);
  void add(const monitor::LaneView& lane) {
    add(lane.epoch);
    add(lane.done_bytes);
    add(lane.posted_bytes);
    add(hash_text(lane.state));
    add(static_cast<std::uint64_t>(lane.condition));
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 1;
};

void Fingerprint::add(const monitor::CommunicatorView& view) {
  add(view.id);
  add(static_cast<std::uint64_t>(view.state));
  for (const std::uint64_t count : {view.entered, view.done, view.ends_entered, view.ends_done}) add(count);
  for (const monitor::PendingView& pending : view.pending) {
    add(pending.operation.index);
    add(static_cast<std::uint64_t>(pending.awaited));
    for (const monitor::WorkerView& worker : pending.workers)
      add((std::uint64_t{worker.tile} << 32) + worker.steps_done);
  }
  for (const monitor::LinkView& link : view.links) {
    add(link.posted);
    add(link.sent);
    add(link.acked);
  }
}

}  // namespace

Hello hello_of_this_host(const std::vector<std::string>& folders) {
  Hello hello;
  hello.host = host_name();
  hello.place = hash_text(first_line("/proc/sys/kernel/random/boot_id"));
  for (const char* name : {"/proc/self/ns/pid", "/proc/self/ns/uts", "/proc/self/ns/mnt"})
    hello.place = mix(hello.place, hash_text(link_target(name)));
  hello.place = mix(hello.place, ::geteuid());
  for (const std::string& folder : folders) hello.place = mix(hello.place, hash_text(folder));
  return hello;
}

std::uint64_t fingerprint_of(const monitor::Snapshot& snapshot) {
  Fingerprint fingerprint;
  for (const monitor::ProcessView& process : snapshot.processes) {
    fingerprint.add(hash_text(process.file));
    fingerprint.add((process.alive ? 1U : 0U) + (process.stopped ? 2U : 0U) + (process.ended ? 4U : 0U));
    fingerprint.add(process.event_count);
    for (const monitor::GatheringView& view : process.gatherings) {
      fingerprint.add(view.key);
      fingerprint.add(view.joined.size());
    }
    for (const monitor::CommunicatorView& view : process.communicators) fingerprint.add(view);
    for (const monitor::LaneView& lane : process.lanes) fingerprint.add(lane);
  }
  return fingerprint.value();
}

std::uint64_t fingerprint_of(const gpu::GpuLook& look) {
  Fingerprint fingerprint;
  for (const gpu::GpuHealth& gpu : look.gpus) {
    fingerprint.add(static_cast<std::uint64_t>(gpu.index));
    fingerprint.add((gpu.lost ? 1U : 0U) + (gpu::throttle_names(gpu.throttle).empty() ? 0U : 2U));
    fingerprint.add(gpu.uncorrected);
    fingerprint.add(gpu::link_errors_of(gpu));
  }
  return fingerprint.value();
}

std::string summary_of(Telemetry telemetry) {
  std::erase_if(telemetry.lanes, [](const LaneFacts& lane) { return !is_remarkable(lane); });
  diagnosis::shorten(telemetry);
  return diagnosis::line_of(telemetry);
}

HostReporter::HostReporter(std::vector<std::string> folders, HostPort collector, JobKey key)
    : folders_(std::move(folders)),
      collector_(fmt::format("{}:{}", collector.host, collector.port)),
      link_(std::move(collector), std::move(key),
            hello_of_this_host(folders_.empty() ? monitor::recording_folders() : folders_), kMostFromCollector,
            [this](const Frame& frame) { return take(frame); }),
      gpus_(settings().nvml) {}

double HostReporter::due() const {
  if (!link_.is_connected()) return link_.due();
  return std::min(next_look_, next_alive_);
}

void HostReporter::work(double now) {
  link_.work(now);
  if (std::exchange(failures_, link_.failures()) != link_.failures())
    log_.warn(fmt::format("no connection to the collector {}, tried again with pauses: {}", collector_,
                          link_.failure().message),
              now);
  if (!link_.is_connected()) return;
  if (link_.connections() != connection_) begin_again();
  if (now >= next_look_ && link_.backlog() <= kMostBacklog) look(now);
  if (now >= next_alive_) {
    link_.push(FrameKind::alive, "");
    next_alive_ = now + kAlivePause;
  }
  link_.work(now);
}

/// Nothing has been said on this connection, nor heard.
void HostReporter::begin_again() {
  connection_ = link_.connections();
  told_ = 0;
  is_quiet_ = false;
  incident_ = false;
  offset_ = {};
  next_look_ = 0;
}

monitor::Snapshot HostReporter::snapshot(const monitor::Detail& detail) const {
  return monitor::take_snapshot(folders_.empty() ? monitor::recording_folders() : folders_, detail);
}

double HostReporter::pause() const { return incident_ ? kIncidentPause : kPause; }

void HostReporter::look(double now) {
  const double cpu = process_cpu_seconds();
  ++looks_;
  last_look_ = now;
  bool has_moved = true;
  const gpu::GpuLook gpus = gpus_.look();
  xids_ += gpus.xids.size();
  const std::uint64_t of_gpus = mix(fingerprint_of(gpus), xids_);
  if (is_quiet_) {
    const monitor::Snapshot glance = snapshot({});
    has_moved = mix(fingerprint_of(glance), of_gpus) != seen_;
    if (!has_moved) say_look(glance.now);
  }
  if (has_moved) {
    const monitor::Snapshot whole = snapshot(diagnosis::RecordingObserver::detail());
    const std::uint64_t fingerprint = mix(fingerprint_of(whole), of_gpus);
    is_quiet_ = fingerprint == seen_;
    seen_ = fingerprint;
    send_summaries(whole, gpus, now);
    say_look(whole.now);
  }
  budget_.spend(process_cpu_seconds() - cpu, now);
  next_look_ = now + std::max(pause(), budget_.wait(now));
  next_alive_ = now + kAlivePause;
}

void HostReporter::send_summaries(const monitor::Snapshot& snapshot, const gpu::GpuLook& gpus, double now) {
  // It remembers what it saw before, so it sees every look, also those of which nothing new is told.
  std::vector<Telemetry> all = observer_.observe(snapshot, diagnosis::read_starvation(snapshot));
  gpu_observer_.observe(gpus, snapshot.now, all);
  jobs_.clear();
  for (Telemetry& telemetry : all) {
    if (jobs_.size() == kMostJobs) {
      log_.warn(fmt::format("{} jobs are here; the collector hears of {}", all.size(), kMostJobs), now);
      break;
    }
    jobs_.push_back(telemetry.job);
    if (seen_ == told_) continue;
    const std::string summary = summary_of(std::move(telemetry));
    if (summary.size() <= kMostSummary) {
      link_.push(FrameKind::telemetry, summary);
      ++summaries_;
    } else {
      log_.warn(fmt::format("a summary of {} bytes is not sent; the collector takes {}", summary.size(), kMostSummary),
                now);
    }
  }
  told_ = seen_;
}

void HostReporter::say_look(double looked_at) {
  LookMessage message;
  message.looked_at = looked_at;
  message.sent = static_cast<std::int64_t>(1e9 * monotonic_seconds());
  message.offset_known = offset_.known();
  message.offset = offset_.offset();
  message.jobs = jobs_;
  link_.push(FrameKind::look, encode(message));
}

Status HostReporter::take(const Frame& frame) {
  if (frame.kind != FrameKind::pace)
    return fail(ErrorCode::refused,
                fmt::format("the collector sent a frame of {}; expected pace", name_of(frame.kind)));
  const auto pace = decode_pace(frame.payload);
  if (!pace) return tl::unexpected(pace.error());
  const double now = monotonic_seconds();
  if (pace->sent != 0) offset_.take({pace->sent, pace->heard, pace->told, static_cast<std::int64_t>(1e9 * now)});
  if (pace->incident && !incident_) next_look_ = std::min(next_look_, last_look_ + kIncidentPause);
  incident_ = pace->incident;
  return {};
}

}  // namespace tutti::agent
