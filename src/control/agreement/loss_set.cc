#include "control/agreement/loss_set.hpp"

#include <fmt/format.h>

namespace tutti {

bool LossSet::add(Loss loss) {
  const bool known = loss.certainty == Certainty::known;
  if (known_[loss.member] || (presumed_[loss.member] && !known)) return false;
  known_[loss.member] = known;
  presumed_[loss.member] = !known;
  return true;
}

bool LossSet::allows(const MemberSet& set) const {
  bool leaves_out_living = false;
  bool leaves_out_silent = false;
  for (std::size_t member = 0; member < set.size(); ++member) {
    if (set[member] || known_[member]) continue;
    (presumed_[member] ? leaves_out_silent : leaves_out_living) = true;
  }
  return !(leaves_out_living || (leaves_out_silent && quorum_ != Quorum::none)) || has_quorum(set);
}

bool LossSet::has_quorum(const MemberSet& set) const {
  const std::size_t twice = 2 * count(set);
  return twice > set.size() || (twice == set.size() && set[0] && quorum_ != Quorum::majority);
}

Error no_quorum_error(const MemberSet& silent) {
  Error error;
  error.code = ErrorCode::no_quorum;
  const std::vector<int> ranks = listed(silent);
  if (!ranks.empty()) error.peer = ranks.front();
  error.message = fmt::format(
      "{} ranks, {} of them silent ({}): no majority is left to go on without them; they may live where this side "
      "cannot reach them, and go on themselves (if they are surely dead, name them in ShrinkOptions::dead)",
      silent.size(), ranks.size(), fmt::join(ranks, ", "));
  return error;
}

}  // namespace tutti
