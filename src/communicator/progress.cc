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
  if (std::find(attended_.begin(), attended_.end(), communicator) == attended_.end()) attended_.push_back(communicator);
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
      std::erase_if(attended_, [](const auto& communicator) { return communicator->idle(); });
      current.clear();
      changed_.wait(lock, [this] { return !attended_.empty(); });
      current = attended_;
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
