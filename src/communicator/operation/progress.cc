#include "communicator/operation/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"
#include "communicator/operation/operation_driver.hpp"
#include "engine/waiter.hpp"

namespace tutti {

void Progress::attend(const std::shared_ptr<OperationDriver>& driver) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const auto& each) { return !each.owner_before(driver) && !driver.owner_before(each); };
  if (std::none_of(attended_.begin(), attended_.end(), same)) attended_.push_back(driver);
  if (!runs_) {
    // Without the thread an operation moves only when somebody waits for it or tests it; the next one tries again.
    if (auto thread = start_thread("tutti-progress", [this] { loop(); }); thread) {
      thread->detach();
      runs_ = true;
    } else if (!std::exchange(warned_, true)) {
      log::warn("{}; operations move only when they are waited for", thread.error().message);
    }
  }
  changed_.notify_one();
}

void Progress::loop() {
  Waiter waiter(WaitPolicy::of(true));
  std::vector<std::shared_ptr<OperationDriver>> current;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !attended_.empty(); });
      for (const auto& each : attended_)
        if (auto driver = each.lock()) current.push_back(std::move(driver));
      std::erase_if(attended_, [](const auto& each) {
        const auto driver = each.lock();
        return driver == nullptr || driver->idle();
      });
    }
    bool moved = false;
    for (const auto& driver : current) moved |= driver->drive();
    current.clear();
    if (moved)
      waiter.reset();
    else if (waiter.pause() == Waiter::Next::sleep)
      ::usleep(200);
  }
}

}  // namespace tutti
