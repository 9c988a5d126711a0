#include "communicator/group.hpp"

#include <utility>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti {
namespace {

struct GroupedCall {
  std::shared_ptr<CommunicatorImpl> communicator;
  std::shared_ptr<Operation> held;  // owns the counts the call points to
};

thread_local int t_depth = 0;
thread_local std::vector<GroupedCall> t_pending;

}  // namespace

bool in_group() { return t_depth > 0; }

bool put_in_group(const std::shared_ptr<CommunicatorImpl>& communicator, const Call& call) {
  if (t_depth == 0) return false;
  auto held = std::make_shared<Operation>();
  held->call = call;
  held->own_counts();
  t_pending.push_back({communicator, std::move(held)});
  return true;
}

Group::Group() { ++t_depth; }

Group::~Group() {
  if (open_) (void)end();
}

Status Group::end() {
  if (!open_) return fail(ErrorCode::invalid_argument, "this group has ended already");
  open_ = false;
  if (--t_depth > 0) return {};  // the outermost group runs everything
  std::vector<GroupedCall> pending;
  pending.swap(t_pending);
  std::vector<std::shared_ptr<Operation>> operations;
  for (const GroupedCall& each : pending) operations.push_back(each.communicator->driver().submit(each.held->call));
  Status first;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    // Waiting for one drives its communicator; the progress thread drives the others of the group.
    const Status done = pending[i].communicator->driver().wait(*operations[i], Deadline::never());
    if (!done && first) first = done;
  }
  return first;
}

}  // namespace tutti
