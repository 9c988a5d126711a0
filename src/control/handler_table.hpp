// Callbacks by key, registered and removed from any thread, called by one thread. remove() returns only when the
// callback does not run and will not run again, so that what it refers to may then be destroyed; a callback may also
// remove itself, or others.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {

template <typename Key, typename... Args>
class HandlerTable {
 public:
  using Handler = std::function<void(Args...)>;

  void set(const Key& key, Handler handler) {
    auto shared = std::make_shared<Handler>(std::move(handler));
    const std::lock_guard lock(mutex_);
    handlers_[key] = std::move(shared);
  }

  void remove(const Key& key) {
    std::unique_lock lock(mutex_);
    handlers_.erase(key);
    if (running_ == key && caller_ != std::this_thread::get_id()) idle_.wait(lock, [&] { return running_ != key; });
  }

  /// False where there is none.
  bool call(const Key& key, const Args&... args) {
    std::unique_lock lock(mutex_);
    const auto found = handlers_.find(key);
    if (found == handlers_.end()) return false;
    const std::shared_ptr<Handler> handler = found->second;
    running_ = key;
    caller_ = std::this_thread::get_id();
    lock.unlock();
    (*handler)(args...);
    lock.lock();
    running_.reset();
    idle_.notify_all();
    return true;
  }

  void call_all(const Args&... args) {
    std::vector<Key> keys;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& entry : handlers_) keys.push_back(entry.first);
    }
    for (const Key& key : keys) call(key, args...);
  }

  bool contains(const Key& key) const {
    const std::lock_guard lock(mutex_);
    return handlers_.contains(key);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::map<Key, std::shared_ptr<Handler>> handlers_;
  std::optional<Key> running_;
  std::thread::id caller_;
};

}  // namespace tutti
