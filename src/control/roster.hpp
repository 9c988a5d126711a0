// Who of a world lives, has died or has left, as this process knows it. Any thread.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "control/death.hpp"

namespace tutti {

class Roster {
 public:
  void resize(int processes) {
    const std::lock_guard lock(mutex_);
    entries_.assign(static_cast<std::size_t>(processes), {});
  }
  int size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(entries_.size());
  }
  bool alive(int process) const {
    const std::lock_guard lock(mutex_);
    return known(process) && !at(process).death && !at(process).left;
  }
  bool left(int process) const {
    const std::lock_guard lock(mutex_);
    return known(process) && at(process).left;
  }
  std::optional<Death> death_of(int process) const {
    const std::lock_guard lock(mutex_);
    return known(process) ? at(process).death : std::nullopt;
  }
  /// Processes that have died or left, ascending.
  std::vector<int> absent() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> found;
    for (std::size_t process = 0; process < entries_.size(); ++process)
      if (entries_[process].death || entries_[process].left) found.push_back(static_cast<int>(process));
    return found;
  }
  void set_dead(int process, Death death) {
    const std::lock_guard lock(mutex_);
    entries_[static_cast<std::size_t>(process)].death = std::move(death);
  }
  void set_left(int process) {
    const std::lock_guard lock(mutex_);
    entries_[static_cast<std::size_t>(process)].left = true;
  }

 private:
  struct Entry {
    std::optional<Death> death;
    bool left = false;
  };
  bool known(int process) const { return process >= 0 && static_cast<std::size_t>(process) < entries_.size(); }
  const Entry& at(int process) const { return entries_[static_cast<std::size_t>(process)]; }

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace tutti
