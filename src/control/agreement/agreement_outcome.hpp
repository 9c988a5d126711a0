// How an agreement ended for one member: with the survivors, or with an error; and what the members have decided, if it
// knows, so that it can tell others. Set once, never changed. Not thread-safe.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "control/agreement/agreement_message.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Survivors {
  std::vector<int> members;  // ascending
  std::vector<Blob> blobs;   // blobs[i] is what members[i] brought

  bool operator==(const Survivors&) const = default;
};

class AgreementOutcome {
 public:
  /// Ends in an error; what the others decide stays unknown.
  void fail(Error error) { error_ = std::move(error); }
  /// Ends with a decision that this member is part of: it has accepted `proposal`, which has the same set.
  void survive(CommitMessage decision, ShrinkProposal proposal);
  /// Ends with a decision that leaves this member out, which is an error.
  void leave_out(CommitMessage decision);

  bool is_known() const { return survivors_ || error_; }
  /// Returns what the members have decided, with or without this one; none: that is not known.
  const std::optional<CommitMessage>& decision() const { return decision_; }
  /// Returns the set and its blobs, or the error; none until it is known. The first call after that copies the blobs.
  const std::optional<Result<Survivors>>& result() const;

 private:
  std::optional<CommitMessage> decision_;
  std::optional<ShrinkProposal> survivors_;
  std::optional<Error> error_;
  mutable std::optional<Result<Survivors>> result_;  // made when it is asked for
};

}  // namespace tutti
