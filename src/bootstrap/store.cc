#include "bootstrap/store.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <new>

#include "bootstrap/store_loop.hpp"

namespace tutti {
namespace {

// Signals are the application's: none is delivered to a thread of ours.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Store::Store(std::shared_ptr<StoreProgress> progress, Fd doorbell)
    : progress_(std::move(progress)), doorbell_(std::move(doorbell)), owner_(::getpid()) {}

Result<std::unique_ptr<Store>> Store::start(std::vector<Fd> listeners, const JobKey& key) {
  Fd doorbell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell) return system_error("opening the store's doorbell");
  auto progress = std::make_shared<StoreProgress>();
  auto loop = StoreLoop::make(std::move(listeners), key, doorbell.get(), progress);
  if (!loop) return tl::unexpected(loop.error());
  std::unique_ptr<Store> store(new Store(std::move(progress), std::move(doorbell)));
  const SignalsBlocked blocked;
  store->thread_ = std::thread([loop = std::move(*loop)]() mutable {
    pthread_setname_np(pthread_self(), "tutti-store");
    loop->run();
    loop.reset();
  });
  return store;
}

Store::~Store() {
  if (owner_ != ::getpid()) {
    // The thread did not follow us through fork: joining it would wait for ever, and forgetting it frees nothing of it.
    ::new (static_cast<void*>(&thread_)) std::thread;
    return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto rung = ::write(doorbell_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

bool Store::wait_answered(Deadline deadline) const {
  std::unique_lock lock(progress_->mutex);
  while (!progress_->answered && !progress_->over && !deadline.passed())
    progress_->changed.wait_for(lock, std::chrono::milliseconds(deadline.poll_milliseconds(1000)));
  return progress_->answered;
}

int Store::newcomers() const {
  const std::lock_guard lock(progress_->mutex);
  return progress_->newcomers;
}

bool Store::over() const {
  const std::lock_guard lock(progress_->mutex);
  return progress_->over;
}

}  // namespace tutti
