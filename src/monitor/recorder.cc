#include "monitor/recorder.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "monitor/feed.hpp"
#include "monitor/folder.hpp"

namespace tutti::monitor {
namespace {

std::uint64_t nanoseconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// What the launcher calls this job.
std::string launcher_job() {
  for (const char* const variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID"})
    if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0') return value;
  return "";
}

std::uint32_t power_of_two(int wanted) { return std::bit_ceil(static_cast<std::uint32_t>(wanted)); }

RecorderOptions options_from_settings() {
  const Settings& set = settings();
  RecorderOptions options;
  options.folder = set.monitor_dir.empty() ? default_folder() : set.monitor_dir;
  options.shape.communicators = static_cast<std::uint32_t>(set.monitor_communicators);
  options.shape.operations = power_of_two(set.monitor_operations);
  options.shape.steps = 2 * options.shape.operations;
  options.shape.lanes = static_cast<std::uint32_t>(set.monitor_lanes);
  options.window = set.monitor_window;
  return options;
}

/// A file of this folder that nobody else sees until it is locked: whoever finds it unlocked knows its writer is gone.
Result<Fd> make_file(const std::string& folder, const std::string& path, std::size_t bytes) {
  Fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return system_error(fmt::format("cannot make a recording in {}", folder));
  // Memory that tmpfs has no room for would be found missing only when it is touched, by SIGBUS.
  if (const int failed = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); failed != 0) {
    errno = failed;
    return system_error(fmt::format("no room for {} bytes in {}", bytes, folder));
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return system_error("cannot lock a recording");
  const std::string own = fmt::format("/proc/self/fd/{}", file.get());
  if (::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return system_error(fmt::format("cannot name a recording {}", path));
  return file;
}

/// The head of the process's recording, for the handler below. Set once.
std::atomic<Head*> head_of_process{nullptr};

/// People, schedulers and launchers end a job with these. Where nobody handles them they kill the process as SIGSEGV
/// would; the recording should tell the two apart.
constexpr int kEndings[] = {SIGTERM, SIGINT, SIGHUP};

/// Notes the signal, and lets it do what it would have done. Calls nothing that a handler may not call.
void note_ending(int number) {
  struct sigaction current {};
  // A handler that was set later, and calls the one before it: what the signal does is its affair.
  if (::sigaction(number, nullptr, &current) == 0 && current.sa_handler != note_ending) return;
  Head* const head = head_of_process.load(std::memory_order_relaxed);
  // A child made by fork() shares the recording, and is not the one it tells of.
  if (head != nullptr && head->pid.get() == ::getpid()) head->told_to_end.set(static_cast<std::uint32_t>(number));
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(number, &by_default, nullptr);
  ::raise(number);
}

/// Handles the signals above where nobody else does. A program that sets a handler of its own takes ours away, and is
/// expected to leave in order.
void watch_endings(Head& head) {
  if (::getpid() == 1) return;  // of a container: the kernel lets it live on
  head_of_process.store(&head, std::memory_order_relaxed);
  for (const int number : kEndings) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
        action.sa_handler != SIG_DFL)
      continue;
    action.sa_handler = note_ending;
    action.sa_flags = SA_ONSTACK;
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

Recorder& Recorder::of_process() {
  // Never destroyed: threads of ours may write until the process is gone. At exit it is removed, or left to be read.
  static Recorder* const instance = [] {
    if (settings().monitor) {
      Result<std::unique_ptr<Recorder>> opened = open(options_from_settings());
      if (opened) {
        std::atexit([] { of_process().end(); });
        watch_endings((*opened)->map().head());
        return opened->release();
      }
      log::warn("nothing is recorded: {}", opened.error().message);
    }
    return new Recorder;
  }();
  return *instance;
}

Result<std::unique_ptr<Recorder>> Recorder::open(const RecorderOptions& options) {
  if (Status ready = prepare_folder(options.folder); !ready) return tl::unexpected(ready.error());
  remove_orphans(options.folder);
  std::unique_ptr<Recorder> recorder(new Recorder);
  recorder->owner_ = ::getpid();
  recorder->path_ = fmt::format("{}/{}-{:x}{}", options.folder, ::getpid(), ticks(), kSuffix);
  const std::size_t bytes = Map::bytes(options.shape);
  Result<Fd> file = make_file(options.folder, recorder->path_, bytes);
  if (!file) return tl::unexpected(file.error());
  Result<Mapping> mapping = Mapping::of(file->get(), bytes);
  if (!mapping) return tl::unexpected(mapping.error());
  recorder->file_ = std::move(*file);
  recorder->mapping_ = std::move(*mapping);
  recorder->map_ = Map(recorder->mapping_.data(), options.shape);
  recorder->write_head(options);
  return recorder;
}

void Recorder::write_head(const RecorderOptions& options) {
  Head& head = map_.head();
  head.version.set(kVersion);
  head.bytes.set(static_cast<std::uint32_t>(mapping_.bytes()));
  head.pid.set(owner_);
  const Shape& shape = options.shape;
  head.communicators.set(shape.communicators);
  head.operations.set(shape.operations);
  head.steps.set(shape.steps);
  head.lanes.set(shape.lanes);
  head.chunks.set(shape.chunks);
  head.events.set(shape.events);
  head.window.set(static_cast<std::uint32_t>(options.window));
  head.ticks_per_microsecond.set(ticks_per_microsecond());
  head.ticks0.set(ticks());
  head.monotonic0.set(nanoseconds_of(CLOCK_MONOTONIC));
  head.realtime0.set(nanoseconds_of(CLOCK_REALTIME));
  head.clock_error.set(~std::uint64_t{0});
  head.host.set(host_name());
  head.command.set(program_invocation_short_name);
  head.launcher_job.set(launcher_job());
  head.magic.set(kMagic);
}

Recorder::~Recorder() { end(); }

void Recorder::end() {
  if (!is_on() || !is_ours()) return;
  const std::lock_guard lock(mutex_);
  map_.head().ended.set(1);
  bool keep = keep_;
  for (std::uint32_t i = 0; i < map_.shape().communicators; ++i)
    keep = keep || map_.communicator(i).state.get() == CommunicatorRecord::broken;
  if (!keep) ::unlink(path_.c_str());
}

bool Recorder::is_ours() const { return owner_ == ::getpid(); }

GatheringRecord* Recorder::open_gathering(std::uint64_t key, int rank, int size) {
  if (!is_on() || !is_ours() || size > kGathered) return nullptr;
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < kGatherings; ++i) {
    GatheringRecord& gathering = map_.gathering(i);
    if (gathering.open.get() != 0) continue;
    for (Cell<std::uint64_t>& word : gathering.joined) word.set(0);
    gathering.serves.set(0);
    gathering.rank.set(rank);
    gathering.size.set(size);
    gathering.key.set(key);
    gathering.began.set(ticks());
    gathering.open.set(1);
    return &gathering;
  }
  return nullptr;
}

void Recorder::close_gathering(GatheringRecord* record) {
  if (record == nullptr || !is_ours()) return;
  const std::lock_guard lock(mutex_);
  record->open.set(0);
}

CommunicatorRecord* Recorder::open_communicator(std::uint64_t id) {
  if (!is_on() || !is_ours()) return nullptr;
  const std::lock_guard lock(mutex_);
  // Of those that are closed the one that has been so for longest: its operations may still be of interest.
  CommunicatorRecord* found = nullptr;
  for (std::uint32_t i = 0; i < map_.shape().communicators; ++i) {
    CommunicatorRecord& each = map_.communicator(i);
    const std::uint32_t state = each.state.get();
    if (state == CommunicatorRecord::free) {
      found = &each;
      break;
    }
    if (state == CommunicatorRecord::closed && (found == nullptr || each.closed_at.get() < found->closed_at.get()))
      found = &each;
  }
  if (found == nullptr) {
    map_.head().lost_communicators.add(1);
    return nullptr;
  }
  clear(*found);
  found->id.set(id);
  found->created.set(ticks());
  return found;
}

void Recorder::clear(CommunicatorRecord& record) {
  record.state.set(CommunicatorRecord::free);
  for (std::uint64_t i = 0; i < map_.shape().operations; ++i) map_.operation(record, i).index.set(0);
  for (std::uint64_t i = 0; i < map_.shape().steps; ++i) map_.step(record, i).index.set(0);
  for (auto* const count : {&record.entered, &record.done, &record.ends_entered, &record.ends_done,
                            &record.operation_count, &record.step_count, &record.closed_at})
    count->set(0);
  record.lost_links.set(0);
  record.lost_actives.set(0);
  record.error.set("");
  for (auto& of_kind : record.totals)
    for (Total& total : of_kind)
      for (auto* const sum : {&total.operations, &total.bytes, &total.ticks, &total.waited}) sum->set(0);
  record.together_ticks.set(0);
  record.together_waited.set(0);
  for (auto& of_level : record.marks)
    for (Mark& mark : of_level) mark.index.set(0);
  for (WaitRecord& wait : record.waits) {
    wait.name.set(0);
    wait.ticks.set(0);
  }
  for (Active& active : record.actives) active.generation.set((active.generation.get() + 1) & ~std::uint64_t{1});
  for (LinkRecord& link : record.links) link.name.set(0);
}

void Recorder::close_communicator(CommunicatorRecord* record) {
  if (record == nullptr || !is_ours()) return;
  const std::lock_guard lock(mutex_);
  keep_ = keep_ || record->state.get() == CommunicatorRecord::broken;
  record->closed_at.set(ticks());
  record->state.set(CommunicatorRecord::closed);
}

LinkRecord* Recorder::open_link(CommunicatorRecord& of, int peer, int channel, bool receives) {
  const std::uint64_t name = link_name(peer, channel, receives);
  for (LinkRecord& link : of.links) {
    if (link.name.get() != 0 && link.name.get() != name) continue;
    for (auto* const count : {&link.posted, &link.transferred, &link.done, &link.bytes}) count->set(0);
    link.operation.set(0);
    link.name.set(name);
    return &link;
  }
  of.lost_links.add(1);
  return nullptr;
}

LaneRecord* Recorder::open_lane() {
  if (!is_on() || !is_ours()) return nullptr;
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < map_.shape().lanes; ++i) {
    LaneRecord& lane = map_.lane(i);
    if (lane.state.get() != 0) continue;
    for (std::uint64_t chunk = 0; chunk < map_.shape().chunks; ++chunk) map_.chunk(lane, chunk).index.set(0);
    for (auto* const count : {&lane.posted_chunks, &lane.posted_bytes, &lane.done_chunks, &lane.done_bytes,
                              &lane.quick_chunks, &lane.quick_bytes, &lane.busy, &lane.receiver_late, &lane.starved,
                              &lane.drops, &lane.stalls, &lane.checked_chunks, &lane.corrupted_chunks,
                              &lane.returned_chunks, &lane.corrupted_at, &lane.chunk_count, &lane.since})
      count->set(0);
    for (auto* const rate : {&lane.rate, &lane.usual}) rate->set(0);
    for (auto* const word : {&lane.index, &lane.epoch, &lane.relayed, &lane.condition, &lane.cause}) word->set(0);
    lane.peer.set(-1);
    lane.peer_name.set("");
    lane.name.set("");
    lane.reason.set("");
    lane.state.set(1);
    return &lane;
  }
  map_.head().lost_lanes.add(1);
  return nullptr;
}

void Recorder::close_lane(LaneRecord* record) {
  if (record != nullptr && is_ours()) record->state.set(0);
}

std::uint32_t Recorder::program(std::string_view name) {
  if (!is_on() || !is_ours()) return 0;
  const std::lock_guard lock(mutex_);
  Head& head = map_.head();
  const std::uint32_t count = head.program_count.get();
  for (std::uint32_t i = 0; i < count; ++i)
    if (head.programs[i].get() == name) return i;
  if (count == kPrograms) return kPrograms - 1;
  head.programs[count].set(count + 1 == kPrograms ? "others" : name);
  head.program_count.set(count + 1);
  return count;
}

void Recorder::record(const Event& event) {
  if (!is_on() || !is_ours()) return;
  const std::uint64_t index = map_.head().event_count.claim(1);
  EventRecord& record = map_.event(index);
  record.index.set(0);
  record.at.set(event.at != 0 ? event.at : ticks());
  record.began.set(event.began);
  record.kind.set(static_cast<std::uint32_t>(event.kind));
  record.cause.set(static_cast<std::uint32_t>(event.cause));
  record.communicator.set(event.communicator);
  record.rank.set(event.rank);
  record.peer.set(event.peer);
  record.lane.set(event.lane);
  record.operation.set(event.operation);
  for (int i = 0; i < 3; ++i) record.values[i].set(event.values[i]);
  record.text.set(event.text);
  record.index.set(index + 1);
  announce_event();
}

}  // namespace tutti::monitor
