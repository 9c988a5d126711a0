// A set of members 0..n-1, kept as runs of consecutive numbers: the sets of an agreement are nearly all members, or
// nearly none, so that a set of 100,000 takes a few bytes, in memory and on the wire. Plain values; one thread at a
// time.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/wire.hpp"

namespace tutti {

class MemberSet {
 public:
  struct MemberRange {
    int first;
    int end;

    bool operator==(const MemberRange&) const = default;
  };

  /// Of so many members, in which there are none, or all.
  explicit MemberSet(std::size_t members = 0, bool all = false);
  /// Says of each member whether it is in the set.
  MemberSet(std::initializer_list<bool> members);
  /// Returns the set of one of so many members.
  static MemberSet of(std::size_t members, int member);

  /// How many members there could be.
  std::size_t size() const { return static_cast<std::size_t>(size_); }
  std::size_t count() const { return static_cast<std::size_t>(count_); }
  bool empty() const { return runs_.empty(); }
  bool operator[](std::size_t member) const;
  const std::vector<MemberRange>& runs() const { return runs_; }

  /// Returns how many members of the set are below `member`.
  int count_below(int member) const;
  /// Returns the member with so many of the set below it; -1 if there is none.
  int at(int place) const;

  void add(int member) { add_run({member, member + 1}); }
  void add_run(MemberRange run);
  void remove(int member);
  /// Of sets of equally many members.
  MemberSet& operator|=(const MemberSet& other);
  MemberSet& operator-=(const MemberSet& other);
  MemberSet& operator&=(const MemberSet& other);
  friend MemberSet operator|(MemberSet set, const MemberSet& other) { return set |= other; }
  friend MemberSet operator-(MemberSet set, const MemberSet& other) { return set -= other; }
  friend MemberSet operator&(MemberSet set, const MemberSet& other) { return set &= other; }

  bool operator==(const MemberSet&) const = default;

  /// "0, 1, 5-9"
  std::string to_string() const;

  /// A bit per member where they are few; otherwise the runs, or the bits if these are shorter.
  void encode(WireWriter& out) const;
  /// Returns false if that is no set of so many members; then it is empty.
  bool decode(WireReader& in, std::size_t members);

 private:
  template <typename Keep>
  void combine(const MemberSet& other, Keep keep);
  void append(MemberRange run);
  bool decode_runs(WireReader& in);

  int size_ = 0;
  int count_ = 0;
  std::vector<MemberRange> runs_;  // ascending, not empty, with gaps between them
};

inline std::size_t count(const MemberSet& set) { return set.count(); }

/// Returns the members of `set`, ascending.
std::vector<int> listed(const MemberSet& set);

}  // namespace tutti
