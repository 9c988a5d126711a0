#include "communicator/job/clock_follower.hpp"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include <fstream>

#include "base/wire.hpp"
#include "control/control.hpp"
#include "monitor/recorder.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kQuestions = 0x636c6f636b3f;  // topics that are no communicator's
constexpr std::uint64_t kAnswers = 0x636c6f636b21;
constexpr int kFirst = 8;  // exchanges one after another when the job begins: one of them meets no other traffic

std::int64_t monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Processes that say the same have the same monotonic clock: a boot of a kernel, and a time namespace of it.
std::string clock_name() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char name_space[PATH_MAX] = {};
  const ssize_t length = ::readlink("/proc/self/ns/time", name_space, sizeof name_space - 1);
  return boot + "/" + std::string(name_space, length > 0 ? static_cast<std::size_t>(length) : 0);
}

void record(std::int64_t offset, std::uint64_t error) {
  const monitor::Recorder& recorder = monitor::Recorder::of_process();
  if (!recorder.is_on()) return;
  recorder.map().head().clock_offset.set(offset);
  recorder.map().head().clock_error.set(error);
}

}  // namespace

ClockFollower::ClockFollower(Control& control, int self) : control_(control), clock_(clock_name()) {
  if (self == 0) {
    is_own();
    control_.on_message(kQuestions, [this](int from, std::span<const std::byte> bytes) { answer(from, bytes); });
    return;
  }
  control_.on_message(kAnswers, [this](int, std::span<const std::byte> bytes) { learn(bytes); });
  pulses_ = control_.on_pulse([this] { ask(); });
  ask();
}

ClockFollower::~ClockFollower() {
  control_.unsubscribe(pulses_);
  control_.remove_topic(kQuestions);
  control_.remove_topic(kAnswers);
}

void ClockFollower::is_own() { record(0, 0); }

void ClockFollower::ask() {
  if (same_clock_) return;
  WireWriter question;
  question.put(monotonic_now());
  (void)control_.send(0, kQuestions, question.take());
}

void ClockFollower::answer(int from, std::span<const std::byte> question) {
  const std::int64_t heard = monotonic_now();
  WireReader reader(question);
  const auto sent = reader.get<std::int64_t>();
  if (!reader.ok()) return;
  WireWriter answer;
  answer.put(sent);
  answer.put(heard);
  answer.put_text(clock_);
  answer.put(monotonic_now());
  (void)control_.send(from, kAnswers, answer.take());
}

void ClockFollower::learn(std::span<const std::byte> answer) {
  const std::int64_t back = monotonic_now();
  WireReader reader(answer);
  monitor::ClockSample sample;
  sample.sent = reader.get<std::int64_t>();
  sample.heard = reader.get<std::int64_t>();
  const std::string clock = reader.get_text();
  sample.told = reader.get<std::int64_t>();
  sample.back = back;
  if (!reader.ok()) return;
  if (clock == clock_) {
    same_clock_ = true;
    return is_own();
  }
  offset_.take(sample);
  if (offset_.known()) record(offset_.offset(), offset_.error_at(back));
  if (++answers_ < kFirst) ask();
}

}  // namespace tutti
