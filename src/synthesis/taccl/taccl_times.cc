#include "synthesis/taccl/taccl_times.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

const TacclLink& link_of(const TacclProblem& problem, const TacclSend& send) {
  return problem.model.links[at(send.link)];
}

}  // namespace

Groups::Groups(const TacclProblem& problem, const TacclOrders& orders, const std::vector<bool>& joins)
    : group_of(orders.sends.size(), -1) {
  for (std::size_t link = 0; link < problem.model.links.size(); ++link)
    for (const int send : orders.lanes[link]) {
      if (!joins[at(send)]) {
        members.emplace_back();
        duration.push_back(problem.model.links[link].alpha);
      }
      members.back().push_back(send);
      duration.back() += problem.model.links[link].beta;
      group_of[at(send)] = static_cast<int>(members.size()) - 1;
    }
  next.resize(members.size());
  for (std::size_t i = 0; i < orders.sends.size(); ++i)
    if (const int before = orders.sends[i].after; before >= 0) next[at(group_of[at(before)])].push_back(group_of[i]);
  for (const auto& lane : orders.lanes)
    for (std::size_t i = 1; i < lane.size(); ++i)
      if (const int a = group_of[at(lane[i - 1])], b = group_of[at(lane[i])]; a != b) next[at(a)].push_back(b);
  sort();
}

void Groups::sort() {
  std::vector<int> waits(members.size(), 0);
  for (const auto& followers : next)
    for (const int follower : followers) ++waits[at(follower)];
  for (std::size_t i = 0; i < members.size(); ++i)
    if (waits[i] == 0) order.push_back(static_cast<int>(i));
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const int follower : next[at(order[i])])
      if (--waits[at(follower)] == 0) order.push_back(follower);
}

TacclTimes times_of(const TacclProblem& problem, const TacclOrders& orders, std::vector<bool> joins) {
  const Groups groups(problem, orders, joins);
  TacclTimes times;
  times.joins = std::move(joins);
  if (groups.order.size() < groups.members.size()) {
    times.seconds = HUGE_VAL;
    return times;
  }
  times.begins.assign(orders.sends.size(), 0);
  times.ends.assign(orders.sends.size(), 0);
  std::vector<double> begin(groups.members.size(), 0);
  for (const int group : groups.order) {
    const double end = begin[at(group)] + groups.duration[at(group)];
    for (const int follower : groups.next[at(group)]) begin[at(follower)] = std::max(begin[at(follower)], end);
    for (const int send : groups.members[at(group)]) {
      times.begins[at(send)] = begin[at(group)];
      times.ends[at(send)] = end;
    }
    times.seconds = std::max(times.seconds, end);
  }
  return times;
}

std::vector<bool> joinable_sends(const TacclProblem& problem, const TacclOrders& orders, bool reduction) {
  const std::size_t links = problem.model.links.size();
  std::vector<std::vector<int>> before(orders.sends.size());  // on the link and its ports
  for (std::size_t lane = 0; lane < links + problem.model.ports.size(); ++lane)
    for (std::size_t i = 0; i < orders.lanes[lane].size(); ++i)
      before[at(orders.lanes[lane][i])].push_back(i == 0 ? -1 : orders.lanes[lane][i - 1]);
  std::vector<bool> joinable(orders.sends.size(), false);
  for (std::size_t i = 0; i < orders.sends.size(); ++i) {
    const int first = before[i].front();
    const bool alone = std::any_of(before[i].begin(), before[i].end(), [&](int send) { return send != first; });
    if (!link_of(problem, orders.sends[i]).remote || first < 0 || alone) continue;
    joinable[i] = !reduction || problem.chunks[at(orders.sends[i].chunk)].home ==
                                    problem.chunks[at(orders.sends[at(first)].chunk)].home;
  }
  return joinable;
}

// Leaves out what joins cost: sends that may go together follow one another at once, but for one alpha in every run as
// long as runs can be; sums are made in any order.
double least_time(const TacclProblem& problem, const TacclOrders& orders, const std::vector<bool>& joinable) {
  const std::size_t sends = orders.sends.size(), links = problem.model.links.size();
  const Groups single(problem, orders, std::vector<bool>(sends, false));
  std::vector<std::vector<int>> waits(sends);  // for the ends of these
  const std::size_t fixed = links + problem.model.ports.size();
  for (std::size_t lane = 0; lane < fixed; ++lane)
    for (std::size_t i = 1; i < orders.lanes[lane].size(); ++i) {
      const int first = orders.lanes[lane][i - 1], second = orders.lanes[lane][i];
      if (!joinable[at(second)]) waits[at(second)].push_back(first);
    }
  std::vector<double> begins(sends, 0), ends(sends, 0);
  std::vector<std::pair<std::size_t, std::size_t>> position(sends);  // link and place
  for (std::size_t link = 0; link < links; ++link)
    for (std::size_t i = 0; i < orders.lanes[link].size(); ++i) position[at(orders.lanes[link][i])] = {link, i};
  double least = 0;
  for (const int group : single.order) {
    const int send = single.members[at(group)].front();
    const TacclLink& link = link_of(problem, orders.sends[at(send)]);
    double& begin = begins[at(send)];
    double& end = ends[at(send)];
    if (const int before = orders.sends[at(send)].after; before >= 0) begin = ends[at(before)];
    for (const int other : waits[at(send)]) begin = std::max(begin, ends[at(other)]);
    const auto& lane = orders.lanes[position[at(send)].first];
    const std::size_t place = position[at(send)].second;
    if (joinable[at(send)]) {
      begin = std::max(begin, begins[at(lane[place - 1])]);
      end = ends[at(lane[place - 1])] + link.beta;
    }
    if (place >= at(kMostTogether))
      end = std::max(end, ends[at(lane[place - at(kMostTogether)])] + link.alpha + link.beta * kMostTogether);
    end = std::max(end, begin + link.cost());
    least = std::max(least, end);
  }
  for (std::size_t lane = fixed; lane < orders.lanes.size(); ++lane) {
    double begin = HUGE_VAL, sum = 0;
    for (const int send : orders.lanes[lane]) {
      begin = std::min(begin, begins[at(send)]);
      sum += link_of(problem, orders.sends[at(send)]).cost();
    }
    least = std::max(least, begin + sum);
  }
  return least;
}

}  // namespace tutti
