// One case on one rank: its buffers, its calls, and whether the buffers hold what they must afterwards.
// Lives until its calls are done; one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "guarded_buffer.hpp"
#include "shape.hpp"
#include "tutti/communicator.hpp"

namespace tutti::integration {

/// One call. Calls of equal `order` must be made in the order they are given in; others may be made in any order.
struct Action {
  static constexpr int kCollective = -1;
  int order = kCollective;
  std::function<Status()> run;
  std::function<Result<Work>()> submit;
};

class Trial {
 public:
  Trial(const Case& one, Communicator& communicator);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const std::vector<Action>& actions() const { return actions_; }
  const Case& what() const { return case_; }

  /// Empty, or what is wrong: the first difference.
  std::string difference() const;

 private:
  void place_buffers();
  void add_even();
  void add_uneven();
  void add_messages();
  void add_message(const SentMessage& message);
  Status send_to_self(const SentMessage& message);
  std::vector<std::byte> image(const GuardedBuffer& buffer, bool holds_input, bool holds_output) const;
  std::string compare(const GuardedBuffer& buffer, bool holds_input, bool holds_output) const;
  std::string compare_elements(const GuardedBuffer& buffer, const std::vector<std::byte>& expected,
                               bool holds_output) const;

  Case case_;
  Communicator& communicator_;
  Shape shape_;
  GuardedBuffer first_;   // the input; in place: both
  GuardedBuffer second_;  // the output
  const void* send_ = nullptr;
  void* recv_ = nullptr;
  std::vector<Action> actions_;
};

}  // namespace tutti::integration
