#include "communicator/job.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "communicator/impl.hpp"
#include "control/control.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {

Job::Job(std::unique_ptr<Control> control, std::shared_ptr<Tcp> tcp, std::vector<Endpoint> endpoints, int self)
    : self_(self), tcp_(std::move(tcp)), endpoints_(std::move(endpoints)), control_(std::move(control)) {}

Job::~Job() {
  if (control_ != nullptr) control_->leave();
}

void Job::watch() {
  control_->on_death([this](int process, const Error& error) {
    if (tcp_ != nullptr) tcp_->close_peer(endpoint_of(process).id, error);
    process_ended(process, error, true);
  });
  control_->on_leave([this](int process) { process_ended(process, {}, false); });
}

void Job::enroll(std::uint64_t id, const std::shared_ptr<CommunicatorImpl>& communicator) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    auto& members = communicators_[id];
    first = members.empty();
    members.push_back(communicator);
  }
  if (first && control_ != nullptr)
    control_->on_message(id, [this, id](int, std::span<const std::byte> bytes) { hear(id, bytes); });
}

void Job::dismiss(std::uint64_t id, const CommunicatorImpl*) {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    auto& members = communicators_[id];
    std::erase_if(members, [](const auto& member) { return member.expired(); });
    last = members.empty();
    if (last) communicators_.erase(id);
  }
  if (last && control_ != nullptr) control_->remove_topic(id);
}

std::vector<std::shared_ptr<CommunicatorImpl>> Job::members(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CommunicatorImpl>> living;
  if (const auto found = communicators_.find(id); found != communicators_.end())
    for (const auto& member : found->second)
      if (auto communicator = member.lock()) living.push_back(std::move(communicator));
  return living;
}

std::vector<std::shared_ptr<CommunicatorImpl>> Job::everyone() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CommunicatorImpl>> living;
  for (const auto& [id, members] : communicators_)
    for (const auto& member : members)
      if (auto communicator = member.lock()) living.push_back(std::move(communicator));
  return living;
}

void Job::deliver(std::uint64_t id, const Message& message) {
  for (const auto& communicator : members(id)) communicator->hear(message);
}

void Job::hear(std::uint64_t id, std::span<const std::byte> bytes) {
  const Result<Message> message = Message::decode(bytes);
  if (message)
    deliver(id, *message);
  else
    log::warn("dropped: {}", message.error().message);
}

void Job::broadcast(std::uint64_t id, const Message& message) {
  deliver(id, message);
  if (control_ != nullptr) control_->broadcast(id, message.encode());
}

void Job::send(std::uint64_t id, int process, const Message& message) {
  if (process == self_)
    deliver(id, message);
  else if (control_ != nullptr)
    control_->send(process, id, message.encode());
}

void Job::process_ended(int process, const Error& error, bool died) {
  for (const auto& communicator : everyone()) communicator->process_ended(process, error, died);
}

void Job::wait_outside(std::uint64_t id, const CommunicatorImpl* self) {
  for (const auto& communicator : members(id))
    if (communicator.get() != self) communicator->wait_outside();
}

}  // namespace tutti
