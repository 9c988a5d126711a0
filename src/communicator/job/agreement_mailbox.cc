#include "communicator/job/agreement_mailbox.hpp"

#include <algorithm>

#include "control/agreement/agreement_message.hpp"

namespace tutti {

std::uint32_t AgreementMailbox::begin() {
  const std::lock_guard lock(mutex_);
  handler_ = nullptr;
  ++handlers_;
  return ++agreements_;
}

void AgreementMailbox::end(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  agreements_ = std::max(agreements_, number);
}

void AgreementMailbox::set_handler(const Handler& handler) {
  std::vector<Message> early;
  {
    const std::lock_guard lock(mutex_);
    handler_ = handler;
    ++handlers_;
    early.swap(early_);
  }
  for (const Message& message : early) deliver(message);
}

/// A message that the handler does not take waits for the next one. The handler is called without the mutex: if another
/// was set meanwhile, that one has taken what waited before it, and gets this message, too.
void AgreementMailbox::deliver(const Message& message) {
  while (true) {
    Handler handler;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (handler_ == nullptr) return keep(message);
      handler = handler_;
      number = handlers_;
    }
    if (handler(message)) return;
    const std::lock_guard lock(mutex_);
    if (number == handlers_) return keep(message);
  }
}

void AgreementMailbox::keep(const Message& message) {
  const auto speaker = [&](const Message& each) { return speaker_of(ranks_, each.from, each.body); };
  if (is_withdrawal(ranks_, message.from, message.body))
    std::erase_if(early_, [&, who = speaker(message)](const Message& each) { return speaker(each) == who; });
  else
    early_.push_back(message);
}

}  // namespace tutti
