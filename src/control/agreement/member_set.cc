#include "control/agreement/member_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace tutti {
namespace {

constexpr std::size_t kAlwaysBits = 64;  // members, up to which a set is a bit each

std::size_t number_bytes(std::uint32_t number) {
  std::size_t bytes = 1;
  for (; number >= 128; number >>= 7) ++bytes;
  return bytes;
}

// Seven bits a byte, the lowest first; the last one is below 128.
void put_number(WireWriter& out, std::uint32_t number) {
  for (; number >= 128; number >>= 7) out.put(static_cast<std::uint8_t>(number | 128));
  out.put(static_cast<std::uint8_t>(number));
}

std::uint32_t get_number(WireReader& in) {
  std::uint32_t number = 0;
  for (int shift = 0; shift < 28; shift += 7) {
    const auto byte = in.get<std::uint8_t>();
    number |= static_cast<std::uint32_t>(byte & 127) << shift;
    if (byte < 128) break;
  }
  return number;
}

}  // namespace

MemberSet::MemberSet(std::size_t members, bool all) : size_(static_cast<int>(members)) {
  if (all) append({0, size_});
}

MemberSet::MemberSet(std::initializer_list<bool> members) : size_(static_cast<int>(members.size())) {
  int member = 0;
  for (const bool is_in : members) {
    if (is_in) append({member, member + 1});
    ++member;
  }
}

MemberSet MemberSet::of(std::size_t members, int member) {
  MemberSet set(members);
  set.add(member);
  return set;
}

// Of a run that begins nowhere before the end of the last one.
void MemberSet::append(MemberRange run) {
  if (run.first >= run.end) return;
  count_ += run.end - run.first;
  if (!runs_.empty() && runs_.back().end == run.first)
    runs_.back().end = run.end;
  else
    runs_.push_back(run);
}

bool MemberSet::operator[](std::size_t member) const {
  const int number = static_cast<int>(member);
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), number,
                                      [](int value, const MemberRange& run) { return value < run.first; });
  return after != runs_.begin() && number < std::prev(after)->end;
}

int MemberSet::count_below(int member) const {
  int below = 0;
  for (const MemberRange& run : runs_) {
    if (run.first >= member) break;
    below += std::min(run.end, member) - run.first;
  }
  return below;
}

int MemberSet::at(int place) const {
  for (const MemberRange& run : runs_) {
    if (place < run.end - run.first) return run.first + place;
    place -= run.end - run.first;
  }
  return -1;
}

void MemberSet::add_run(MemberRange run) {
  if (run.first >= run.end) return;
  if (runs_.empty() || runs_.back().end <= run.first) return append(run);
  MemberSet other(size());
  other.append(run);
  *this |= other;
}

void MemberSet::remove(int member) {
  if (!(*this)[static_cast<std::size_t>(member)]) return;
  MemberSet other(size());
  other.add(member);
  *this -= other;
}

// Goes from border to border of the runs of both.
template <typename Keep>
void MemberSet::combine(const MemberSet& other, Keep keep) {
  const std::vector<MemberRange> own = std::move(runs_);
  runs_.clear();
  count_ = 0;
  std::size_t at_own = 0;
  std::size_t at_other = 0;
  int from = 0;
  while (at_own < own.size() || at_other < other.runs_.size()) {
    int to = size_;
    const auto look = [&](const std::vector<MemberRange>& runs, std::size_t at) {
      const bool inside = at < runs.size() && runs[at].first <= from;
      if (at < runs.size()) to = std::min(to, inside ? runs[at].end : runs[at].first);
      return inside;
    };
    const bool in_own = look(own, at_own);
    const bool in_other = look(other.runs_, at_other);
    if (keep(in_own, in_other)) append({from, to});
    if (in_own && own[at_own].end == to) ++at_own;
    if (in_other && other.runs_[at_other].end == to) ++at_other;
    from = to;
  }
}

MemberSet& MemberSet::operator|=(const MemberSet& other) {
  if (other.empty()) return *this;
  combine(other, [](bool own, bool theirs) { return own || theirs; });
  return *this;
}

MemberSet& MemberSet::operator-=(const MemberSet& other) {
  if (other.empty()) return *this;
  combine(other, [](bool own, bool theirs) { return own && !theirs; });
  return *this;
}

MemberSet& MemberSet::operator&=(const MemberSet& other) {
  combine(other, [](bool own, bool theirs) { return own && theirs; });
  return *this;
}

std::string MemberSet::to_string() const {
  std::string text;
  for (const MemberRange& run : runs_) {
    if (!text.empty()) text += ", ";
    text += std::to_string(run.first);
    if (run.end == run.first + 2) text += fmt::format(", {}", run.first + 1);
    if (run.end > run.first + 2) text += fmt::format("-{}", run.end - 1);
  }
  return text;
}

std::vector<int> listed(const MemberSet& set) {
  std::vector<int> members;
  members.reserve(set.count());
  for (const MemberSet::MemberRange& run : set.runs())
    for (int member = run.first; member < run.end; ++member) members.push_back(member);
  return members;
}

void MemberSet::encode(WireWriter& out) const {
  std::size_t bytes = number_bytes(static_cast<std::uint32_t>(runs_.size()));
  int from = 0;
  for (const MemberRange& run : runs_) {
    bytes += number_bytes(static_cast<std::uint32_t>(run.first - from));
    bytes += number_bytes(static_cast<std::uint32_t>(run.end - run.first));
    from = run.end;
  }
  const bool as_bits = size() <= kAlwaysBits || bytes >= (size() + 7) / 8;
  if (size() > kAlwaysBits) out.put(static_cast<std::uint8_t>(as_bits ? 0 : 1));
  if (as_bits) {
    std::vector<bool> bits(size());
    for (const int member : listed(*this)) bits[static_cast<std::size_t>(member)] = true;
    return out.put_set(bits);
  }
  put_number(out, static_cast<std::uint32_t>(runs_.size()));
  from = 0;
  for (const MemberRange& run : runs_) {
    put_number(out, static_cast<std::uint32_t>(run.first - from));
    put_number(out, static_cast<std::uint32_t>(run.end - run.first));
    from = run.end;
  }
}

bool MemberSet::decode(WireReader& in, std::size_t members) {
  *this = MemberSet(members);
  const auto form = members > kAlwaysBits ? in.get<std::uint8_t>() : std::uint8_t{0};
  bool fits = form <= 1 && in.ok();
  if (fits && form == 1) {
    fits = decode_runs(in);
  } else if (fits) {
    const std::vector<bool> bits = in.get_set(members);
    for (int member = 0; member < size_; ++member)
      if (bits[static_cast<std::size_t>(member)]) append({member, member + 1});
    fits = in.ok();
  }
  if (!fits) *this = MemberSet(members);
  return fits;
}

bool MemberSet::decode_runs(WireReader& in) {
  std::int64_t from = 0;
  for (std::uint32_t run = get_number(in); run > 0; --run) {
    const std::int64_t gap = get_number(in);
    const std::int64_t length = get_number(in);
    if (!in.ok() || length == 0 || (gap == 0 && from > 0) || from + gap + length > size_) return false;
    append({static_cast<int>(from + gap), static_cast<int>(from + gap + length)});
    from += gap + length;
  }
  return true;
}

}  // namespace tutti
