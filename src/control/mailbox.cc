#include "control/mailbox.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace tutti {

void Mailbox::make_room(std::size_t processes) {
  per_topic_limit_ = std::max<std::size_t>(64, 4 * processes);
  total_limit_ = 16 * per_topic_limit_;
}

void Mailbox::deliver(int from, std::uint64_t topic, std::span<const std::byte> bytes) {
  hand_over(topic);  // whatever was kept comes first
  if (!handlers_.call(topic, from, bytes)) keep(from, topic, bytes);
}

void Mailbox::open(std::uint64_t topic) {
  if (handlers_.contains(topic)) std::erase(retired_, topic);
  hand_over(topic);
}

void Mailbox::hand_over(std::uint64_t topic) {
  for (auto found = kept_.find(topic); found != kept_.end() && handlers_.contains(topic); found = kept_.find(topic)) {
    const Kept message = std::move(found->second.front());
    found->second.pop_front();
    --total_;
    if (found->second.empty()) kept_.erase(found);
    handlers_.call(topic, message.from, message.bytes);
  }
}

void Mailbox::retire(std::uint64_t topic) {
  if (handlers_.contains(topic)) return;  // taken again since
  if (const auto found = kept_.find(topic); found != kept_.end()) {
    total_ -= found->second.size();
    kept_.erase(found);
  }
  retired_.push_back(topic);
  if (retired_.size() > kRetired) retired_.pop_front();
}

void Mailbox::keep(int from, std::uint64_t topic, std::span<const std::byte> bytes) {
  if (std::find(retired_.begin(), retired_.end(), topic) != retired_.end()) return;
  const auto found = kept_.find(topic);
  const bool full = total_ >= total_limit_ || (found != kept_.end() && found->second.size() >= per_topic_limit_);
  if (full) {
    if (!warned_) log::warn("control messages for topic {:x} that nobody here listens to are dropped", topic);
    warned_ = true;
    return;
  }
  kept_[topic].push_back({from, std::vector<std::byte>(bytes.begin(), bytes.end())});
  ++total_;
}

}  // namespace tutti
