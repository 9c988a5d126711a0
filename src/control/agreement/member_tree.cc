#include "control/agreement/member_tree.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tutti {
namespace {

// Adds the members of `from` that have at least `first` and fewer than `end` of them below.
void add_part(MemberSet& set, const MemberSet& from, int first, int end) {
  int below = 0;
  for (const MemberSet::MemberRange& run : from.runs()) {
    const int length = run.end - run.first;
    const int begin = std::max(first - below, 0);
    set.add_run({run.first + begin, run.first + std::min(end - below, length)});
    below += length;
    if (below >= end) return;
  }
}

}  // namespace

MemberTree::MemberTree(int root, MemberSet present, MemberSet asked, int fan_out)
    : root_(root), fan_out_(fan_out), present_(std::move(present)), asked_(std::move(asked)) {
  present_.add(root);
  asked_ -= present_;
  const std::size_t room = present_.count() * static_cast<std::size_t>(fan_out);
  ordered_ = asked_.count() <= room ? static_cast<int>(present_.count()) : size();
}

bool MemberTree::contains(int member) const { return place_of(member) >= 0; }

int MemberTree::place_of(int member) const {
  const int present = static_cast<int>(present_.count());
  if (present_[static_cast<std::size_t>(member)])
    return (present_.count_below(member) - present_.count_below(root_) + present) % present;
  if (asked_[static_cast<std::size_t>(member)]) return present + asked_.count_below(member);
  return -1;
}

int MemberTree::member_at(int place) const {
  const int present = static_cast<int>(present_.count());
  if (place >= present) return asked_.at(place - present);
  return present_.at((place + present_.count_below(root_)) % present);
}

int MemberTree::parent(int member) const {
  const int place = place_of(member);
  return place <= 0 ? -1 : member_at(parent_place(place));
}

std::vector<int> MemberTree::children(int member) const {
  std::vector<int> members;
  const std::int64_t place = place_of(member);
  if (place < 0 || place >= ordered_) return members;
  const std::int64_t end = std::min<std::int64_t>(place * fan_out_ + fan_out_ + 1, ordered_);
  for (std::int64_t child = place * fan_out_ + 1; child < end; ++child)
    members.push_back(member_at(static_cast<int>(child)));
  for (std::int64_t child = ordered_ + place; child < size(); child += ordered_)
    members.push_back(member_at(static_cast<int>(child)));
  return members;
}

int MemberTree::living_parent(int member, const MemberSet& living) const {
  int above = parent(member);
  while (above >= 0 && !living[static_cast<std::size_t>(above)]) above = parent(above);
  return above >= 0 ? above : root_;
}

std::vector<int> MemberTree::living_children(int member, const MemberSet& living) const {
  std::vector<int> members;
  add_living_children(member, living, members);
  return members;
}

void MemberTree::add_living_children(int member, const MemberSet& living, std::vector<int>& members) const {
  for (const int child : children(member))
    if (living[static_cast<std::size_t>(child)])
      members.push_back(child);
    else
      add_living_children(child, living, members);
}

MemberSet MemberTree::branch(int member) const {
  MemberSet set(present_.size());
  std::int64_t first = place_of(member);
  if (first < 0) return set;
  if (first >= ordered_) set.add(member);
  for (std::int64_t end = first + 1; first < ordered_; end = end * fan_out_ + 1) {
    const std::int64_t last = std::min<std::int64_t>(end, ordered_);
    add_places(set, first, last);
    for (std::int64_t more = ordered_; more < size(); more += ordered_)
      add_places(set, first + more, std::min<std::int64_t>(last + more, size()));
    first = first * fan_out_ + 1;
  }
  return set;
}

int MemberTree::depth() const {
  const auto depth_of = [this](int place) {
    int depth = 0;
    for (; place > 0; place = parent_place(place)) ++depth;
    return depth;
  };
  const int beside = std::min(size() - ordered_, ordered_);  // that many of those in order have others spread over them
  return std::max(depth_of(ordered_ - 1), beside > 0 ? depth_of(beside - 1) + 1 : 0);
}

void MemberTree::add_places(MemberSet& set, std::int64_t from, std::int64_t to) const {
  const int first = static_cast<int>(from);
  int end = static_cast<int>(to);
  if (first >= end) return;
  const int present = static_cast<int>(present_.count());
  const int shift = present_.count_below(root_);
  if (end > present) add_part(set, asked_, std::max(first, present) - present, end - present);
  end = std::min(end, present);
  if (first >= end) return;
  // The order goes around: from the root to the last member, then from the first.
  add_part(set, present_, std::min(first + shift, present), std::min(end + shift, present));
  add_part(set, present_, std::max(first + shift - present, 0), std::max(end + shift - present, 0));
}

}  // namespace tutti
