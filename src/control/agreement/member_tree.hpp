// The tree by which messages of an agreement travel from one member, its root, to all others and back.
//
// The members that have answered come first, in the order of their numbers from the root on and around. Member p of
// this order has the members p * fan_out + 1 and following below it. Those that have not answered are spread over them,
// one by one, and have nobody below them; unless there are more than fan_out times as many: then they continue the
// order. So everyone who knows the root and both sets knows the tree, and every member is below one that comes earlier:
// whatever sets two members believe in, if A is above B in the tree of one, B is not above A in that of the other.
// Plain values; one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "control/agreement/member_set.hpp"

namespace tutti {

class MemberTree {
 public:
  /// `asked` are those that have not answered; of no account where they are in `present`, too. The root is in it.
  MemberTree(int root, MemberSet present, MemberSet asked, int fan_out);

  int root() const { return root_; }
  /// Returns how many members there are, in the tree or not.
  int members() const { return static_cast<int>(present_.size()); }
  bool contains(int member) const;
  /// Returns -1 of the root, and of members that are not in the tree.
  int parent(int member) const;
  std::vector<int> children(int member) const;
  /// Returns the next member above that lives; the root if none does.
  int living_parent(int member, const MemberSet& living) const;
  /// Returns the children that live and, in place of each that does not, its own living children.
  std::vector<int> living_children(int member, const MemberSet& living) const;
  /// Returns the member and all below it; nobody if it is not in the tree.
  MemberSet branch(int member) const;
  const MemberSet& asked() const { return asked_; }
  MemberSet everyone() const { return present_ | asked_; }
  /// Returns whether the root has all others right below it.
  bool is_flat() const { return size() <= fan_out_ + 1; }
  /// How far the last member is from the root.
  int depth() const;

 private:
  int size() const { return static_cast<int>(present_.count() + asked_.count()); }
  int parent_place(int place) const {
    return place < ordered_ ? (place - 1) / fan_out_ : (place - ordered_) % ordered_;
  }
  void add_living_children(int member, const MemberSet& living, std::vector<int>& members) const;
  int place_of(int member) const;  // -1 if it is not in the tree
  int member_at(int place) const;
  void add_places(MemberSet& set, std::int64_t from, std::int64_t to) const;

  int root_;
  int fan_out_;
  MemberSet present_;
  MemberSet asked_;
  int ordered_;  // places of those that may have others below them
};

}  // namespace tutti
