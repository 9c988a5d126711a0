#include "profiler/profiler.hpp"

#include <time.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "base/log.hpp"
#include "profiler/plugin.hpp"

namespace tutti::profiler {
namespace {

constexpr std::uint8_t kChannels = 1;

// A plugin that wants an event gets its parents, too.
constexpr std::uint64_t kBelowOperation = abi::kernel_channel | abi::proxy_operation | abi::proxy_step | abi::network;
constexpr std::uint64_t kOperation = abi::collective | abi::point_to_point | kBelowOperation;
constexpr std::uint64_t kCall = abi::collective_call | abi::point_to_point_call | kOperation;
constexpr std::uint64_t kGroup = abi::group | kOperation;
constexpr std::uint64_t kGroupCall = abi::group_call | abi::kernel_launch | kCall | kGroup;

std::uint64_t nanoseconds_of_day() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

log::Level level_of(int theirs) {
  switch (static_cast<abi::LogLevel>(theirs)) {
    case abi::LogLevel::warn:
      return log::Level::warn;
    case abi::LogLevel::abort:
      return log::Level::error;
    case abi::LogLevel::trace:
      return log::Level::debug;
    default:
      return log::Level::info;
  }
}

void log_for_plugin(int level, unsigned long, const char*, int, const char* format, ...) {
  if (!log::enabled(level_of(level))) return;
  char line[1024] = {};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  log::write(level_of(level), fmt::format("profiler plugin: {}", line));
}

abi::Description describe(abi::Kind kind, void* parent) {
  abi::Description description{};
  description.kind = kind;
  description.parent = parent;
  return description;
}

}  // namespace

Profiler* Profiler::of_process() {
  // Never destroyed: communicators may be used until the process is gone.
  static Profiler* const instance = []() -> Profiler* {
    const std::string name = wanted_plugin();
    if (name.empty()) return nullptr;
    const Result<const abi::Plugin*> plugin = load_plugin(name);
    if (!plugin) {
      log::warn("the profiler plugin '{}' is not used: {}", name, plugin.error().message);
      return nullptr;
    }
    log::info("operations are told to the profiler plugin '{}'", (*plugin)->name);
    return new Profiler(**plugin);
  }();
  return instance;
}

std::unique_ptr<ProfiledCommunicator> Profiler::open(const CommunicatorDescription& communicator) {
  std::unique_ptr<ProfiledCommunicator> opened(new ProfiledCommunicator(*this, communicator.rank));
  const char* const name = communicator.name.empty() ? nullptr : keep(communicator.name);
  const int failed = plugin_.init(&opened->context_, communicator.id, &mask_, name, communicator.hosts,
                                  communicator.size, communicator.rank, log_for_plugin);
  if (failed == 0) return opened;
  log::warn("rank {}: the profiler plugin '{}' fails with {}; it is told nothing of this communicator",
            communicator.rank, plugin_.name, failed);
  opened->context_ = nullptr;
  return nullptr;
}

std::uint64_t Profiler::mask() const {
  return static_cast<std::uint64_t>(std::atomic_ref<int>(mask_).load(std::memory_order_relaxed));
}

const char* Profiler::keep(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const auto found = texts_.find(text);
  return found != texts_.end() ? found->c_str() : texts_.emplace(text).first->c_str();
}

ProfiledCommunicator::~ProfiledCommunicator() {
  if (context_ != nullptr) profiler_.plugin_.finalize(context_);
}

void* ProfiledCommunicator::start(abi::Description description) {
  void* event = nullptr;
  description.rank = rank_;
  return profiler_.plugin_.start(context_, &event, &description) == 0 ? event : nullptr;
}

void ProfiledCommunicator::record(void* event, abi::State state, std::uint64_t at) {
  if (event == nullptr) return;
  abi::StateArguments arguments{at};
  profiler_.plugin_.record_state(event, state, &arguments);
}

ProfiledOperation ProfiledCommunicator::begin(const ProfiledCall& call) {
  const std::uint64_t mask = profiler_.mask();
  ProfiledOperation events;
  events.begun = true;
  if ((mask & kGroupCall) != 0) {
    abi::Description description = describe(abi::group_call, nullptr);
    description.group_call = {false, 1};
    events.group_call = start(description);
    record(events.group_call, abi::group_start_returns);
  }
  if ((mask & kCall) != 0) events.call = start_call(call, events.group_call);
  if ((mask & kGroup) != 0) events.group = start(describe(abi::group, nullptr));
  if ((mask & kOperation) != 0) events.operation = start_operation(call, events);
  if ((mask & abi::kernel_channel) != 0 && events.operation != nullptr) {
    abi::Description description = describe(abi::kernel_channel, events.operation);
    description.kernel_channel = {0, nanoseconds_of_day()};
    events.channel = start(description);
  }
  return events;
}

void* ProfiledCommunicator::start_call(const ProfiledCall& call, void* group_call) {
  abi::Description description =
      describe(call.point_to_point ? abi::point_to_point_call : abi::collective_call, group_call);
  if (call.point_to_point)
    description.point_to_point_call = {call.function, call.count, call.type, nullptr, false};
  else
    description.collective_call = {call.function, call.count, call.type, call.root, nullptr, false};
  return start(description);
}

void* ProfiledCommunicator::start_operation(const ProfiledCall& call, const ProfiledOperation& parents) {
  abi::Description description = describe(call.point_to_point ? abi::point_to_point : abi::collective, parents.call);
  if (call.point_to_point) {
    void* const buffer = call.send != nullptr ? const_cast<void*>(call.send) : call.recv;
    description.point_to_point = {call.function, buffer, call.type, call.count, call.root, kChannels, parents.group};
  } else {
    description.collective = {call.number, call.function, call.send, call.recv, call.count,
                              call.root,   call.type,     kChannels, 0,         profiler_.keep(call.program),
                              "tutti",     parents.group};
  }
  return start(description);
}

void ProfiledCommunicator::end(ProfiledOperation& operation) {
  if (!operation.begun) return;
  record(operation.channel, abi::kernel_channel_stops, nanoseconds_of_day());
  record(operation.group_call, abi::group_end_begins);
  for (void* const event :
       {operation.channel, operation.operation, operation.group, operation.call, operation.group_call})
    if (event != nullptr) profiler_.plugin_.stop(event);
  operation = {};
}

}  // namespace tutti::profiler
