#include "transport/tcp/way_probe.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tutti {
namespace {

constexpr double kFrom = 0.05;      // seconds of silence: acknowledgements may take 40 ms by the kernel's will alone
constexpr double kBetween = 0.015;  // seconds between questions
constexpr int kEnough = 3;          // questions: congestion loses one, seldom all
constexpr int kMost = 4;
constexpr double kAnswer = 0.07;  // seconds for the first of them to be answered
constexpr double kFresh = 0.15;   // seconds until an answer is doubted

}  // namespace

void WayProbe::reset() {
  if (asked_ == 0 && questions_.empty()) return;
  questions_.clear();
  asked_ = 0;
  next_ = 0;
  answered_ = -kNever;
}

Silence::Way WayProbe::ask(double seconds) {
  if (seconds < kFrom) return Silence::Way::unknown;
  if (is_answered()) {
    questions_.clear();
    asked_ = 0;
    answered_ = seconds;
    next_ = seconds + kFresh;
  }
  if (asked_ < kMost && seconds >= next_) ask_once(seconds);
  if (asked_ >= kEnough && seconds - first_asked_ >= kAnswer) return Silence::Way::shut;
  return answered_ >= 0 ? Silence::Way::open : Silence::Way::unknown;
}

bool WayProbe::is_answered() {
  bool answered = false;
  std::erase_if(questions_, [&](const Fd& question) {
    pollfd entry{question.get(), POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) return false;
    // Refused is an answer, too. Other errors come from this host, or from one on the way.
    const int error = sockets_.connect_result(question.get());
    answered = answered || error == 0 || error == ECONNREFUSED;
    return true;
  });
  return answered;
}

void WayProbe::ask_once(double seconds) {
  const auto target = target_ ? target_() : std::nullopt;
  if (!target) return;
  const SocketAddress source = source_.with_port(0);
  auto question = sockets_.connect(*target, target->family() == source.family() ? &source : nullptr);
  // Out of descriptors, perhaps: that says nothing about the way.
  if (!question) return;
  // No goodbyes: what was begun is forgotten when it is closed.
  const linger at_once{1, 0};
  ::setsockopt(question->get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  questions_.push_back(std::move(*question));
  if (asked_++ == 0) first_asked_ = seconds;
  next_ = seconds + kBetween;
}

}  // namespace tutti
