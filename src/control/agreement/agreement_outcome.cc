#include "control/agreement/agreement_outcome.hpp"

#include <fmt/format.h>

#include <utility>

namespace tutti {

void AgreementOutcome::survive(CommitMessage decision, ShrinkProposal proposal) {
  decision_ = std::move(decision);
  survivors_ = std::move(proposal);
}

void AgreementOutcome::leave_out(CommitMessage decision) {
  error_ = tutti::fail(ErrorCode::timed_out,
                       fmt::format("the survivors went on without this member, which came too late: {}",
                                   decision.set.to_string()))
               .value();
  decision_ = std::move(decision);
}

const std::optional<Result<Survivors>>& AgreementOutcome::result() const {
  if (!result_ && error_) result_ = tl::unexpected(*error_);
  if (!result_ && survivors_) result_ = Survivors{listed(survivors_->set), survivors_->blobs.copies()};
  return result_;
}

}  // namespace tutti
