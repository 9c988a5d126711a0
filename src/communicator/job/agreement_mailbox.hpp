// Messages of shrink's agreements, handed to the agreement that has begun, those that came before it included.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "communicator/job/message.hpp"

namespace tutti {

class AgreementMailbox {
 public:
  using Handler = std::function<bool(const Message&)>;  // false: the message is for a later agreement

  explicit AgreementMailbox(int ranks) : ranks_(ranks) {}

  /// Returns the number of the agreement that begins. It may end under a higher one, that of another rank.
  std::uint32_t begin();
  void end(std::uint32_t number);
  void set_handler(const Handler& handler);
  void deliver(const Message& message);

 private:
  void keep(const Message& message);  // with the mutex held

  const int ranks_;
  std::mutex mutex_;  // what follows
  Handler handler_;
  std::uint64_t handlers_ = 0;  // how often it was set
  std::uint32_t agreements_ = 0;
  std::vector<Message> early_;
};

}  // namespace tutti
