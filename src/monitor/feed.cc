#include "monitor/feed.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/thread.hpp"
#include "monitor/event_reader.hpp"
#include "monitor/recorder.hpp"
#include "tutti/monitor.hpp"

namespace tutti {
namespace monitor {

constinit FeedDoor feed_door;

void wake_feed() {
  feed_door.told.fetch_add(1);
  ::syscall(SYS_futex, &feed_door.told, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace monitor

namespace {

using monitor::feed_door;

static_assert(static_cast<int>(MonitorEvent::Kind::lane_corrupted) + 1 == monitor::kEventKinds);
static_assert(static_cast<int>(MonitorEvent::Kind::lane_stalled) == static_cast<int>(monitor::EventKind::lane_stalled));
static_assert(static_cast<int>(MonitorEvent::Cause::path_congested) ==
              static_cast<int>(monitor::Cause::path_congested));

constexpr std::string_view kKindNames[] = {
    "communicator_created", "communicator_closed", "communicator_broken", "rank_late",    "lane_up",       "lane_down",
    "lane_dropped",         "lane_recovered",      "lane_stalled",        "lanes_uneven", "lane_corrupted"};
constexpr std::string_view kCauseNames[] = {"none", "sender_starved", "receiver_late", "path_congested"};

std::chrono::system_clock::time_point time_of(std::uint64_t at) {
  const double ago = microseconds_since(at);
  return std::chrono::system_clock::now() - std::chrono::microseconds(static_cast<std::int64_t>(ago));
}

MonitorEvent event_of(monitor::ToldEvent& told, std::uint64_t missed) {
  MonitorEvent event;
  event.kind = static_cast<MonitorEvent::Kind>(told.kind);
  event.cause = static_cast<MonitorEvent::Cause>(told.cause);
  event.at = time_of(told.at);
  event.began = told.began != 0 ? time_of(told.began) : event.at;
  event.index = told.index;
  event.missed = missed;
  event.communicator = told.communicator;
  event.rank = told.rank;
  event.peer = told.peer;
  event.lane = told.lane;
  event.operation = told.operation;
  std::copy(std::begin(told.values), std::end(told.values), event.values);
  event.text = std::move(told.text);
  return event;
}

/// Until it is woken after `seen`. Wakes now and then while an event is half written: nobody announces its end.
void sleep_until_told(std::uint32_t seen, bool is_something_left) {
  const timespec soon{0, 10'000'000};
  ::syscall(SYS_futex, &feed_door.told, FUTEX_WAIT_PRIVATE, seen, is_something_left ? &soon : nullptr, nullptr, 0);
}

}  // namespace

std::string_view name_of(MonitorEvent::Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kKindNames) ? kKindNames[index] : "?";
}

std::string_view name_of(MonitorEvent::Cause cause) {
  const auto index = static_cast<std::size_t>(cause);
  return index < std::size(kCauseNames) ? kCauseNames[index] : "?";
}

struct Subscription::Entry {
  std::function<void(const MonitorEvent&)> handler;
  std::uint64_t from = 0;  // index of the first event it is called for
};

/// The thread, and who is to be called.
class Subscription::Feed {
 public:
  /// Never destroyed: its thread sleeps until the process is gone.
  static Feed& of_process() {
    static auto* const instance = new Feed;
    return *instance;
  }

  Result<std::shared_ptr<Entry>> add(std::function<void(const MonitorEvent&)> handler) {
    const monitor::Recorder& recorder = monitor::Recorder::of_process();
    if (!is_ours()) return fail(ErrorCode::unsupported, "no events are told in a child made by fork()");
    if (!recorder.is_on())
      return fail(ErrorCode::unsupported, "no events are told where nothing is recorded (see TUTTI_MONITOR)");
    const std::lock_guard lock(mutex_);
    feed_door.listening.store(true);
    const std::uint64_t from = recorder.map().head().event_count.get();
    if (!thread_.joinable())
      if (auto started = start(monitor::EventReader(recorder.map(), from)); !started) {
        feed_door.listening.store(false);
        return tl::unexpected(started.error());
      }
    entries_.push_back(std::make_shared<Entry>(Entry{std::move(handler), from}));
    return entries_.back();
  }

  void remove(const std::shared_ptr<Entry>& entry) {
    if (!is_ours()) return;  // the thread is not in the child, and the mutex may be held for ever
    std::unique_lock lock(mutex_);
    entries_.erase(std::remove(entries_.begin(), entries_.end(), entry), entries_.end());
    feed_door.listening.store(!entries_.empty());
    if (std::this_thread::get_id() != thread_.get_id()) idle_.wait(lock, [&] { return running_ != entry.get(); });
  }

 private:
  bool is_ours() const { return owner_ == ::getpid(); }

  Status start(monitor::EventReader reader) {
    auto thread = start_thread("tutti-events", [this, reader]() mutable { run(reader); });
    if (!thread) return tl::unexpected(thread.error());
    thread_ = std::move(*thread);
    return {};
  }

  [[noreturn]] void run(monitor::EventReader& reader) {
    for (;;) {
      const std::uint32_t seen = feed_door.told.load();
      for (auto& [event, missed] : reader.read()) deliver(event_of(event, missed));
      sleep_until_told(seen, reader.has_new());
    }
  }

  void deliver(const MonitorEvent& event) {
    std::unique_lock lock(mutex_);
    const std::vector<std::shared_ptr<Entry>> entries = entries_;
    for (const std::shared_ptr<Entry>& entry : entries) {
      const bool is_there = std::find(entries_.begin(), entries_.end(), entry) != entries_.end();
      if (!is_there || event.index < entry->from) continue;
      running_ = entry.get();
      lock.unlock();
      entry->handler(event);
      lock.lock();
      running_ = nullptr;
      idle_.notify_all();
    }
  }

  const int owner_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<std::shared_ptr<Entry>> entries_;
  const Entry* running_ = nullptr;
  std::thread thread_;
};

Subscription& Subscription::operator=(Subscription&& other) noexcept {
  end();
  entry_ = std::move(other.entry_);
  return *this;
}

void Subscription::end() {
  if (entry_ != nullptr) Feed::of_process().remove(std::exchange(entry_, nullptr));
}

Result<Subscription> on_event(std::function<void(const MonitorEvent&)> handler) {
  auto entry = Subscription::Feed::of_process().add(std::move(handler));
  if (!entry) return tl::unexpected(entry.error());
  return Subscription(std::move(*entry));
}

}  // namespace tutti
