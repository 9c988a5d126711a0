#include "control/agreement/agreement_mail.hpp"

#include <memory>
#include <variant>

namespace tutti {

constinit AgreementTrees g_agreement_trees;

namespace {

constexpr double kSlowestRate = 100e6;  // bytes per second at which a member passes a table on, if it is slow

// Those who are asked are visited: the message goes no further. The end of the agreement goes to all.
bool is_visit(const AgreementMessage& message, const MemberTree& tree) {
  return !tree.asked().empty() && !std::holds_alternative<CommitMessage>(message);
}

}  // namespace

double AgreementMail::seconds_to_all(std::size_t bytes) const {
  if (!is_deep()) return 0;
  int depth = 0;
  for (int place = members_ - 1; place > 0; place = (place - 1) / fan_out_) ++depth;
  return static_cast<double>(bytes) * fan_out_ * depth / kSlowestRate;
}

void AgreementMail::send(int member, const AgreementMessage& message) {
  outgoing_.push_back({member, std::make_shared<const Blob>(encode(message))});
}

void AgreementMail::cast(const AgreementMessage& message, const MemberSet& living) {
  cast(message, living, MemberSet(living.size()), living);
}

void AgreementMail::cast(const AgreementMessage& message, const MemberSet& present, const MemberSet& asked,
                         const MemberSet& living) {
  const MemberTree tree = draw_tree(self_, present, asked);
  const auto bytes = std::make_shared<const Blob>(encode(message));
  if (!tree.is_flat() || is_visit(message, tree)) {
    const auto whole = std::make_shared<const Blob>(encode(CastMessage{self_, present, asked, bytes, *bytes}));
    return pass_on(message, tree, whole, living);
  }
  for (const int member : listed(tree.everyone() & living))
    if (member != self_) outgoing_.push_back({member, bytes});
}

void AgreementMail::pass_on(const AgreementMessage& message, const MemberTree& tree, const SharedBytes& bytes,
                            const MemberSet& living) {
  const bool only_to_asked = is_visit(message, tree);
  for (const int child : tree.living_children(self_, living))
    if (!only_to_asked || !(tree.branch(child) & tree.asked()).empty()) outgoing_.push_back({child, bytes});
}

}  // namespace tutti
