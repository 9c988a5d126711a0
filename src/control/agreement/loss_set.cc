#include "control/agreement/loss_set.hpp"

#include <fmt/format.h>

namespace tutti {

bool LossSet::add(Loss loss) {
  const auto member = static_cast<std::size_t>(loss.member);
  const bool known = loss.certainty == Certainty::known;
  if (known_[member] || (presumed_[member] && !known)) return false;
  living_.remove(loss.member);
  presumed_.remove(loss.member);
  (known ? known_ : presumed_).add(loss.member);
  return true;
}

bool LossSet::allows(const MemberSet& set) const {
  const bool leaves_out_living = !(living_ - set).empty();
  const bool leaves_out_silent = !(presumed_ - set).empty();
  return !(leaves_out_living || (leaves_out_silent && quorum_ != Quorum::none)) || has_quorum(set);
}

bool LossSet::has_quorum(const MemberSet& set) const {
  const std::size_t twice = 2 * count(set);
  return twice > set.size() || (twice == set.size() && set[0] && quorum_ != Quorum::majority);
}

Error no_quorum_error(const MemberSet& silent) {
  Error error;
  error.code = ErrorCode::no_quorum;
  if (!silent.empty()) error.peer = silent.at(0);
  error.message = fmt::format(
      "{} ranks, {} of them silent ({}): no majority is left to go on without them; they may live where this side "
      "cannot reach them, and go on themselves (if they are surely dead, name them in ShrinkOptions::dead)",
      silent.size(), silent.count(), silent.to_string());
  return error;
}

}  // namespace tutti
