#include "monitor/trace/trace_arrows.hpp"

#include <algorithm>

namespace tutti::monitor {
namespace {

constexpr std::size_t kMostIncomplete = 4096;   // operations
constexpr std::int64_t kWorthAnArrow = 10'000;  // ns of waiting

TraceEvent end_of_arrow(const char* phase, std::uint64_t id, const OperationArrival& at, std::int64_t when) {
  return {{"ph", phase},   {"name", "came last"},           {"cat", "arrow"}, {"id", id}, {"pid", at.pid},
          {"tid", at.tid}, {"ts", trace_microseconds(when)}};
}

}  // namespace

void Arrows::add(const OperationArrival& arrival) {
  if (arrival.ranks < 2) return;
  const Key key{arrival.communicator, arrival.number};
  std::vector<OperationArrival>& all = incomplete_[key];
  if (all.empty()) order_.push_back(key);
  const auto same = [&](const OperationArrival& each) { return each.rank == arrival.rank; };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back(arrival);
  if (static_cast<int>(all.size()) == arrival.ranks) {
    draw(all);
    incomplete_.erase(key);
  }
  while (order_.size() > kMostIncomplete) {
    incomplete_.erase(order_.front());
    order_.pop_front();
  }
}

void Arrows::draw(const std::vector<OperationArrival>& all) {
  const auto later = [](const OperationArrival& a, const OperationArrival& b) { return a.entered < b.entered; };
  const OperationArrival& last = *std::max_element(all.begin(), all.end(), later);
  for (const OperationArrival& each : all) {
    // Between hosts the clocks are known with an error: an arrow back in time is none.
    if (each.rank == last.rank || each.done < last.entered || each.met - each.entered < kWorthAnArrow) continue;
    ++last_id_;
    file_.write(end_of_arrow("s", last_id_, last, last.entered));
    TraceEvent head = end_of_arrow("f", last_id_, each, std::max(each.met, last.entered));
    head["bp"] = "e";
    file_.write(head);
  }
}

}  // namespace tutti::monitor
