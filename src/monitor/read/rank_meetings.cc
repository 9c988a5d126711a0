#include "monitor/read/rank_meetings.hpp"

#include <algorithm>
#include <map>

namespace tutti::monitor {
namespace {

void take_in(RankMeeting& gathering, const GatheringView& view, std::size_t process) {
  if (gathering.size == 0) {
    gathering.key = view.key;
    gathering.size = view.size;
    gathering.began = view.began;
  }
  if (view.size != gathering.size) return;  // a record that contradicts the others is not one of it
  gathering.began = std::min(gathering.began, view.began);
  gathering.waiting.push_back({view.rank, process});
  if (!view.serves) return;
  gathering.whole = true;
  gathering.joined = view.joined;
}

}  // namespace

std::vector<int> RankMeeting::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (!std::binary_search(joined.begin(), joined.end(), rank)) ranks.push_back(rank);
  return ranks;
}

std::vector<RankMeeting> rank_meetings_of(const Snapshot& snapshot) {
  std::map<std::uint64_t, RankMeeting> by_key;
  for (std::size_t i = 0; i < snapshot.processes.size(); ++i) {
    if (!snapshot.processes[i].alive) continue;
    for (const GatheringView& view : snapshot.processes[i].gatherings) take_in(by_key[view.key], view, i);
  }
  std::vector<RankMeeting> all;
  for (auto& [key, each] : by_key) {
    std::sort(each.waiting.begin(), each.waiting.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    // Where the store is not recorded here, whoever waits has come.
    if (!each.whole)
      for (const WaitingRank& waiting : each.waiting)
        if (each.joined.empty() || each.joined.back() != waiting.rank) each.joined.push_back(waiting.rank);
    all.push_back(std::move(each));
  }
  return all;
}

}  // namespace tutti::monitor
