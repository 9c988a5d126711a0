// Messages by topic. A peer may be faster than this process at opening a topic: what comes for a topic without a
// handler is kept, bounded in number and time, and handed over, in order, once there is one. If there is too much the
// oldest goes, since the last word on a topic, such as that it was aborted, is the one that counts.
// set(), remove(): any thread, see handler_table.hpp. deliver(), open(), retire(): the control thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "control/handler_table.hpp"

namespace tutti {

class Mailbox {
 public:
  using Handler = std::function<void(int from, std::span<const std::byte> bytes)>;

  /// Room for `processes` peers that each are a few messages ahead.
  void make_room(std::size_t processes);

  void set(std::uint64_t topic, Handler handler) { handlers_.set(topic, std::move(handler)); }
  void remove(std::uint64_t topic) { handlers_.remove(topic); }

  void deliver(int from, std::uint64_t topic, std::span<const std::byte> bytes);
  /// A topic has a handler now: what was kept for it.
  void open(std::uint64_t topic);
  /// Forgets what was kept for a topic that was removed, and what still comes for it.
  void retire(std::uint64_t topic);

  static constexpr std::size_t kRetired = 1024;
  static constexpr double kKeepSeconds = 600;  // longer than anyone takes to open a topic

 private:
  struct Kept {
    int from;
    std::vector<std::byte> bytes;
    std::uint64_t number;  // in order of arrival
    Deadline until;
  };

  void hand_over(std::uint64_t topic);
  void keep(int from, std::uint64_t topic, std::span<const std::byte> bytes);
  void drop_first(std::uint64_t topic);
  std::uint64_t oldest_topic() const;

  HandlerTable<std::uint64_t, int, std::span<const std::byte>> handlers_;
  std::unordered_map<std::uint64_t, std::deque<Kept>> kept_;
  std::size_t total_ = 0;
  std::uint64_t next_number_ = 0;
  std::size_t per_topic_limit_ = 64;
  std::size_t total_limit_ = 1024;
  bool warned_ = false;
  std::deque<std::uint64_t> retired_;
};

}  // namespace tutti
