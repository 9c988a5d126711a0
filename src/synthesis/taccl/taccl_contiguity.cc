#include "synthesis/taccl/taccl_contiguity.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "synthesis/taccl/integer_program.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostTogether = 6;         // TACCL's
constexpr double kNear = 1e-9;           // relative: what counts as equal
constexpr int kHalvings = 40;            // of the interval a link's best time lies in
constexpr std::size_t kMostSends = 700;  // integer programs with more are not tried

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Joins of one link's sends, with all other times as they are.
class LinkJoiner {
 public:
  LinkJoiner(const TacclProblem& problem, const TacclOrders& orders, const std::vector<bool>& joinable)
      : problem_(problem), orders_(orders), joinable_(joinable) {}

  /// When each send's chunk is there and its ports are free, and how long it takes from its arrival to the end.
  void look_around(const TacclTimes& times) {
    const Groups groups(problem_, orders_, times.joins);
    std::vector<double> after(groups.members.size(), 0);  // from a group's end
    for (auto group = groups.order.rbegin(); group != groups.order.rend(); ++group)
      for (const int follower : groups.next[at(*group)])
        after[at(*group)] = std::max(after[at(*group)], groups.duration[at(follower)] + after[at(follower)]);
    heads_.assign(orders_.sends.size(), 0);
    tails_.assign(orders_.sends.size(), 0);
    const auto tie = [&](int first, int second) {
      const int group = groups.group_of[at(second)];
      heads_[at(second)] = std::max(heads_[at(second)], times.ends[at(first)]);
      tails_[at(first)] = std::max(tails_[at(first)], groups.duration[at(group)] + after[at(group)]);
    };
    for (std::size_t i = 0; i < orders_.sends.size(); ++i)
      if (orders_.sends[i].after >= 0) tie(orders_.sends[i].after, static_cast<int>(i));
    for (std::size_t lane = problem_.model.links.size(); lane < orders_.lanes.size(); ++lane)
      for (std::size_t i = 1; i < orders_.lanes[lane].size(); ++i) {
        const int first = orders_.lanes[lane][i - 1], second = orders_.lanes[lane][i];
        if (orders_.sends[at(first)].link != orders_.sends[at(second)].link) tie(first, second);
      }
  }

  /// Sets the joins of the link's sends so that the last is done, with what follows, as early as can be.
  void join(int link, double most, std::vector<bool>& joins) const {
    double least = 0;
    std::vector<bool> best = joins;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (least + most) / 2;
      (fits(link, middle, best) ? most : least) = middle;
    }
    if (fits(link, most * (1 + kNear), best)) joins = best;
  }

 private:
  /// The runs that end earliest, among those that leave every chunk its time to get on.
  bool fits(int link, double limit, std::vector<bool>& joins) const {
    const std::vector<int>& lane = orders_.lanes[at(link)];
    const TacclLink& costs = problem_.model.links[at(link)];
    std::vector<double> end(lane.size() + 1, HUGE_VAL);
    std::vector<int> size(lane.size() + 1, 0);
    end[0] = 0;
    for (std::size_t i = 1; i <= lane.size(); ++i) {
      double head = 0, tail = 0;
      for (std::size_t count = 1; count <= std::min(i, at(kMostTogether)); ++count) {
        const std::size_t first = at(lane[i - count]);
        head = std::max(head, heads_[first]);
        tail = std::max(tail, tails_[first]);
        const double done = std::max(head, end[i - count]) + costs.alpha + costs.beta * double(count);
        if (done + tail <= limit && done < end[i]) {
          end[i] = done;
          size[i] = static_cast<int>(count);
        }
        if (!joinable_[first]) break;
      }
    }
    if (end.back() == HUGE_VAL) return false;
    for (const int send : lane) joins[at(send)] = true;
    for (std::size_t i = lane.size(); i > 0; i -= at(size[i])) joins[at(lane[i - at(size[i])])] = false;
    return true;
  }

  const TacclProblem& problem_;
  const TacclOrders& orders_;
  const std::vector<bool>& joinable_;
  std::vector<double> heads_, tails_;  // [send]
};

/// All links at once, then link after link, as long as it gets faster.
TacclTimes join_link_by_link(const TacclProblem& problem, const TacclOrders& orders, const std::vector<bool>& joinable,
                             Clock::time_point end) {
  TacclTimes best = times_of(problem, orders, std::vector<bool>(orders.sends.size(), false));
  std::vector<int> links;
  for (int link = 0; link < static_cast<int>(problem.model.links.size()); ++link)
    if (problem.model.links[at(link)].remote && orders.lanes[at(link)].size() > 1) links.push_back(link);
  LinkJoiner joiner(problem, orders, joinable);
  const auto try_links = [&](const std::vector<int>& which) {
    std::vector<bool> joins = best.joins;
    for (const int link : which) joiner.join(link, best.seconds, joins);
    TacclTimes times = times_of(problem, orders, joins);
    if (times.seconds >= best.seconds * (1 - kNear)) return false;
    best = std::move(times);
    joiner.look_around(best);
    return true;
  };
  joiner.look_around(best);
  for (bool better = true; better && Clock::now() < end;) {
    better = try_links(links);
    for (std::size_t i = 0; i < links.size() && Clock::now() < end; ++i) better = try_links({links[i]}) || better;
  }
  return best;
}

/// Times in multiples of what the search began with.
class ContiguityProgram {
 public:
  using Term = IntegerProgram::Term;

  ContiguityProgram(const TacclProblem& problem, const TacclOrders& orders, const std::vector<bool>& joinable,
                    double horizon)
      : problem_(problem), orders_(orders), horizon_(horizon) {
    time_ = program_.add_column(0, 1, 1);
    before_.assign(orders.sends.size(), -1);
    for (std::size_t link = 0; link < problem.model.links.size(); ++link)
      for (std::size_t i = 1; i < orders.lanes[link].size(); ++i)
        before_[at(orders.lanes[link][i])] = orders.lanes[link][i - 1];
    for (std::size_t i = 0; i < orders.sends.size(); ++i) {
      begin_.push_back(program_.add_column(0, 1, 0));
      end_.push_back(program_.add_column(0, 1, 0));
      sum_.push_back(program_.add_column(0, 1, 0));
      join_.push_back(joinable[i] ? program_.add_binary(0) : -1);
    }
    for (int i = 0; i < static_cast<int>(orders.sends.size()); ++i) add_send(i);
    for (const auto& lane : orders.lanes)
      for (std::size_t i = 1; i < lane.size(); ++i) add_succession(lane[i - 1], lane[i]);
    for (std::size_t link = 0; link < problem.model.links.size(); ++link) limit_runs(orders.lanes[link]);
  }

  IntegerProgram& program() { return program_; }

  std::vector<double> values_of(const TacclTimes& times) const {
    std::vector<double> values(at(program_.columns()), 0);
    values[at(time_)] = times.seconds / horizon_;
    for (std::size_t i = 0; i < orders_.sends.size(); ++i) {
      values[at(begin_[i])] = times.begins[i] / horizon_;
      values[at(end_[i])] = values[at(sum_[i])] = times.ends[i] / horizon_;
      if (join_[i] >= 0) values[at(join_[i])] = times.joins[i] ? 1 : 0;
    }
    // Within a run, sums grow from send to send.
    for (std::size_t i = orders_.sends.size(); i-- > 0;) {
      int position = 1;
      for (int send = static_cast<int>(i); times.joins[at(send)]; send = before_[at(send)]) ++position;
      const TacclLink& link = problem_.model.links[at(orders_.sends[i].link)];
      values[at(sum_[i])] = (times.begins[i] + link.alpha + link.beta * position) / horizon_;
    }
    return values;
  }

  std::vector<bool> joins_of(const std::vector<double>& values) const {
    std::vector<bool> joins;
    for (const int column : join_) joins.push_back(column >= 0 && values[at(column)] > 0.5);
    return joins;
  }

 private:
  void add_send(int send) {
    const TacclLink& link = problem_.model.links[at(orders_.sends[at(send)].link)];
    program_.at_least({{sum_[at(send)], 1}, {begin_[at(send)], -1}}, link.cost() / horizon_);
    program_.at_least({{end_[at(send)], 1}, {sum_[at(send)], -1}}, 0);
    program_.at_least({{time_, 1}, {end_[at(send)], -1}}, 0);
    if (const int before = orders_.sends[at(send)].after; before >= 0)
      program_.at_least({{begin_[at(send)], 1}, {end_[at(before)], -1}}, 0);
  }

  void add_succession(int first, int second) {
    const int join = before_[at(second)] == first ? join_[at(second)] : -1;
    if (join < 0) {
      program_.at_least({{begin_[at(second)], 1}, {end_[at(first)], -1}}, 0);
      return;
    }
    const TacclLink& link = problem_.model.links[at(orders_.sends[at(second)].link)];
    program_.at_least({{begin_[at(second)], 1}, {end_[at(first)], -1}, {join, 1}}, 0);
    program_.at_least({{begin_[at(second)], 1}, {begin_[at(first)], -1}}, 0);
    program_.at_least({{begin_[at(first)], 1}, {begin_[at(second)], -1}, {join, -1}}, -1);
    program_.at_least({{sum_[at(second)], 1}, {sum_[at(first)], -1}}, link.beta / horizon_);
    program_.at_least({{end_[at(first)], 1}, {end_[at(second)], -1}, {join, -1}}, -1);
  }

  void limit_runs(const std::vector<int>& lane) {
    for (std::size_t i = at(kMostTogether); i < lane.size(); ++i) {
      std::vector<Term> terms;
      for (std::size_t j = i + 1 - at(kMostTogether); j <= i; ++j)
        if (join_[at(lane[j])] >= 0) terms.push_back({join_[at(lane[j])], -1});
      if (static_cast<int>(terms.size()) == kMostTogether) program_.at_least(terms, 1 - kMostTogether);
    }
  }

  const TacclProblem& problem_;
  const TacclOrders& orders_;
  double horizon_ = 0;  // seconds
  IntegerProgram program_;
  int time_ = 0;
  std::vector<int> begin_, end_, sum_, join_;  // columns, [send]; a sum is the end of the run as far as this send
  std::vector<int> before_;                    // [send] the one before on its link
};

}  // namespace

TacclTimes join_sends(const TacclProblem& problem, const TacclOrders& orders, bool reduction, double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  return join_link_by_link(problem, orders, joinable_sends(problem, orders, reduction), end);
}

TacclTimes improve_joins(const TacclProblem& problem, const TacclOrders& orders, bool reduction, TacclTimes times,
                         double seconds) {
  const std::vector<bool> joinable = joinable_sends(problem, orders, reduction);
  times.optimal = times.seconds <= least_time(problem, orders, joinable) * (1 + kNear);
  if (times.optimal || reduction || orders.sends.size() > kMostSends) return times;
  ContiguityProgram formulation(problem, orders, joinable, times.seconds);
  formulation.program().set_start(formulation.values_of(times));
  const auto found = formulation.program().solve(seconds);
  if (!found) return times;
  if (TacclTimes better = times_of(problem, orders, formulation.joins_of(found->values));
      better.seconds < times.seconds)
    times = std::move(better);
  times.optimal = found->optimal;
  return times;
}

}  // namespace tutti
