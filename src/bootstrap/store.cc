#include "bootstrap/store.hpp"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <new>

#include "base/thread.hpp"
#include "bootstrap/store_loop.hpp"

namespace tutti {

Store::Store(std::shared_ptr<StoreProgress> progress, Fd doorbell)
    : progress_(std::move(progress)), doorbell_(std::move(doorbell)), owner_(::getpid()) {}

Result<std::unique_ptr<Store>> Store::start(std::vector<Fd> listeners, const JobKey& key, Sockets& sockets,
                                            EventLoop::Clock clock) {
  Fd doorbell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell) return system_error("opening the store's doorbell");
  auto progress = std::make_shared<StoreProgress>();
  auto loop = StoreLoop::make(std::move(listeners), key, doorbell.get(), progress, sockets, clock);
  if (!loop) return tl::unexpected(loop.error());
  std::unique_ptr<Store> store(new Store(std::move(progress), std::move(doorbell)));
  // The thread takes the loop, and drops it before it ends: listeners close, and connections, when all are answered.
  const auto owned = std::make_shared<std::unique_ptr<StoreLoop>>(std::move(*loop));
  auto thread = start_thread("tutti-store", [owned] {
    (*owned)->run();
    owned->reset();
  });
  if (!thread) return tl::unexpected(thread.error());
  store->thread_ = std::move(*thread);
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

void Store::on_joined(std::function<void(int rank)> joined) {
  const std::lock_guard lock(progress_->mutex);
  if (joined)
    for (const int rank : progress_->joined) joined(rank);
  progress_->on_joined = std::move(joined);
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
