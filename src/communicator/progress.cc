#include "communicator/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "communicator/impl.hpp"

namespace tutti {

Progress& Progress::of_process() {
  static Progress* const instance = new Progress;  // outlives static destructors: operations may still be under way
  return *instance;
}

void Progress::attend(const std::shared_ptr<CommunicatorImpl>& communicator) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const auto& each) {
    return !each.owner_before(communicator) && !communicator.owner_before(each);
  };
  if (std::none_of(attended_.begin(), attended_.end(), same)) attended_.push_back(communicator);
  if (thread_owner_ != ::getpid()) {
    thread_owner_ = ::getpid();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    std::thread([this] { loop(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  changed_.notify_one();
}

void Progress::loop() {
  pthread_setname_np(pthread_self(), "tutti-progress");
  Waiter waiter(WaitPolicy::of(true));
  std::vector<std::shared_ptr<CommunicatorImpl>> current;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !attended_.empty(); });
      for (const auto& each : attended_)
        if (auto communicator = each.lock()) current.push_back(std::move(communicator));
      std::erase_if(attended_, [](const auto& each) {
        const auto communicator = each.lock();
        return communicator == nullptr || communicator->idle();
      });
    }
    bool moved = false;
    for (const auto& communicator : current) moved |= communicator->drive();
    current.clear();
    if (moved)
      waiter.reset();
    else if (waiter.pause() == Waiter::Next::sleep)
      ::usleep(200);
  }
}

}  // namespace tutti
