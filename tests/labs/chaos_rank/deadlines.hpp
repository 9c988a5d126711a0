// Holds calls against their deadlines, on a machine that may keep this process from running. Time counts for nobody in
// which the whole process stood still (a thread that only sleeps sees it: stopped, or starved), or in which the calling
// thread was ready and waited for a core (the kernel counts that). Beyond its deadline a call has kSlack seconds.
//
// A call that took longer is written to the journal as `late WHAT SECONDS LIMIT`; the run fails by it. hold() may be
// called by the thread that made this object, no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "journal.hpp"

namespace tutti::labs {

class Deadlines {
 public:
  static constexpr double kSlack = 1.0;

  explicit Deadlines(Journal& journal);
  ~Deadlines();
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  /// Runs `call`, which must return within `seconds`, and returns what it returned.
  template <typename Function>
  auto hold(const char* what, double seconds, Function&& call) {
    const Moment begun = moment();
    auto result = call();
    judge(what, seconds, begun);
    return result;
  }

  /// Writes a line `longest WHAT SECONDS LIMIT` for each kind of call.
  void write_longest();

 private:
  struct Moment {
    std::int64_t time = 0;
    std::int64_t stood_still = 0;
    std::int64_t queued = 0;
  };
  struct Longest {
    double seconds = 0;
    double limit = 0;
  };

  Moment moment() const;
  void judge(const char* what, double seconds, const Moment& begun);
  void tick();
  std::int64_t queued() const;

  Journal& journal_;
  int schedstat_ = -1;  // stays open: descriptors may be short later
  std::map<std::string, Longest> longest_;
  // Written by the ticker alone. A reader may see one of the two a tick earlier than the other: less than a tick of
  // difference, which kSlack covers; so no order is needed between them.
  std::atomic<std::int64_t> stood_still_{0};
  std::atomic<std::int64_t> last_tick_;
  std::atomic<bool> stop_{false};
  std::thread ticker_;
};

}  // namespace tutti::labs
