#include "control/mailbox.hpp"

#include <algorithm>
#include <utility>

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
    drop_first(topic);
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
  if (const auto found = kept_.find(topic); found != kept_.end() && found->second.size() >= per_topic_limit_)
    drop_first(topic);
  while (total_ > 0) {
    const std::uint64_t oldest = oldest_topic();
    const bool full = total_ >= total_limit_;
    if (!full && !kept_[oldest].front().until.passed()) break;
    if (full && !std::exchange(warned_, true))
      log::warn("control messages that nobody here listens to are dropped, the oldest (topic {:x}) first", oldest);
    drop_first(oldest);
  }
  kept_[topic].push_back(
      {from, std::vector<std::byte>(bytes.begin(), bytes.end()), next_number_++, Deadline::in(kKeepSeconds)});
  ++total_;
}

void Mailbox::drop_first(std::uint64_t topic) {
  const auto found = kept_.find(topic);
  found->second.pop_front();
  --total_;
  if (found->second.empty()) kept_.erase(found);
}

std::uint64_t Mailbox::oldest_topic() const {
  return std::min_element(
             kept_.begin(), kept_.end(),
             [](const auto& one, const auto& other) { return one.second.front().number < other.second.front().number; })
      ->first;
}

}  // namespace tutti
