#include "program/formats/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace tutti {
namespace {

constexpr std::int64_t kMaxStepsOfAllRanks = 1 << 26;
constexpr std::int64_t kMaxStepsWithoutPattern = 1 << 22;
constexpr int kRanksThatTell = 16;         // how many steps ranks have
constexpr std::size_t kLongestRound = 64;  // steps in a loop's body
constexpr std::size_t kFewestRounds = 3;   // any two values are an arithmetic sequence

/// The remainder nearest to zero.
std::int64_t nearest_remainder(std::int64_t value, std::int64_t mod) {
  value %= mod;
  if (value < 0) value += mod;
  return 2 * value > mod ? value - mod : value;
}

/// One number of the program as the rank goes up: constant, arithmetic, or arithmetic with wrap-around?
class NumberOverRanks {
 public:
  void add(std::int64_t value) {
    if (seen_ == 0) {
      first_ = least_ = most_ = value;
    } else {
      count_difference(value - previous_);
    }
    previous_ = value;
    least_ = std::min(least_, value);
    most_ = std::max(most_, value);
    ++seen_;
  }

  std::optional<Expression> expression() const {
    if (!regular_) return std::nullopt;
    Expression found;
    found.base = first_;
    if (times_[0] == 0 || (times_[1] == 0 && difference_[0] == 0)) return found;
    const bool wraps = times_[1] > 0;
    found.rank = difference_[0];
    // Without a wrap any large enough mod is right; this one is what a wrapping neighbour in the same loop has.
    found.mod = wraps ? std::abs(difference_[0] - difference_[1]) : std::abs(difference_[0]) * seen_;
    if (most_ - least_ >= found.mod) return std::nullopt;
    found.rank = nearest_remainder(found.rank, found.mod);
    found.plus = window_start(found.mod, std::abs(found.rank));
    found.base = first_ - found.plus;
    return found;
  }

 private:
  void count_difference(std::int64_t difference) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (times_[i] == 0) difference_[i] = difference;
      if (difference_[i] == difference) {
        ++times_[i];
        return;
      }
    }
    regular_ = false;
  }

  /// A `plus` such that all values lie in [plus, plus + mod): 0 or a multiple of the stride where possible.
  std::int64_t window_start(std::int64_t mod, std::int64_t stride) const {
    if (least_ >= 0 && most_ < mod) return 0;
    const std::int64_t rounded = stride > 0 ? least_ / stride * stride : least_;
    return rounded <= least_ && most_ < rounded + mod ? rounded : least_;
  }

  std::int64_t first_ = 0, previous_ = 0, least_ = 0, most_ = 0, seen_ = 0;
  std::array<std::int64_t, 2> difference_{};
  std::array<std::int64_t, 2> times_{};
  bool regular_ = true;
};

Step prototype_of(Step step) {
  visit_numbers(step, [](int& number) { number = 0; });
  return step;
}

std::int64_t steps_in(const RankProgram& part) {
  std::int64_t steps = 0;
  for (const Worker& worker : part.workers) steps += static_cast<std::int64_t>(worker.steps.size());
  return steps;
}

/// Calls `visit` with every number of a rank's part, in a fixed order.
template <typename Visitor>
void visit_part(const RankProgram& part, Visitor&& visit) {
  for (const Worker& worker : part.workers) {
    visit(worker.send_peer);
    visit(worker.recv_peer);
    visit(worker.channel);
    for (const Step& step : worker.steps) visit_numbers(step, visit);
  }
}

bool same_form(const Step& a, const Step& b) {
  const auto same_cells = [](const std::vector<Cells>& x, const std::vector<Cells>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Cells& c, const Cells& d) {
      return c.buffer == d.buffer && (c.rank == kSelf) == (d.rank == kSelf);
    });
  };
  return a.kind == b.kind && a.local_first == b.local_first && a.completes == b.completes &&
         (a.peer == kNobody) == (b.peer == kNobody) && a.after.size() == b.after.size() &&
         same_cells(a.sources, b.sources) && same_cells(a.targets, b.targets);
}

bool same_form(const RankProgram& a, const RankProgram& b) {
  return a.scratch_chunks == b.scratch_chunks &&
         std::equal(a.workers.begin(), a.workers.end(), b.workers.begin(), b.workers.end(),
                    [](const Worker& v, const Worker& w) {
                      return (v.send_peer == kNobody) == (w.send_peer == kNobody) &&
                             (v.recv_peer == kNobody) == (w.recv_peer == kNobody) &&
                             std::equal(v.steps.begin(), v.steps.end(), w.steps.begin(), w.steps.end(),
                                        [](const Step& s, const Step& t) { return same_form(s, t); });
                    });
}

/// A loop's rounds: how far steps from `begin` repeat with a period, each number changing by a constant.
class Rounds {
 public:
  Rounds(const std::vector<PatternNode>& nodes, std::size_t begin, std::size_t end, std::size_t period)
      : nodes_(nodes), begin_(begin), period_(period) {
    std::size_t at = begin + period;
    while (at < end && follows(at)) ++at;
    count_ = (at - begin) / period;
  }
  std::size_t count() const { return count_; }

  /// Whether there can be three rounds, by the first step of each: for nearly all periods, there cannot.
  static bool can_be(const std::vector<PatternNode>& nodes, std::size_t begin, std::size_t period) {
    static_assert(kFewestRounds == 3);
    const StepPattern& first = nodes[begin].step;
    const StepPattern& second = nodes[begin + period].step;
    const StepPattern& third = nodes[begin + 2 * period].step;
    return goes_on(first, second, second, third) && first.prototype == second.prototype;
  }

  /// The body's steps, as functions of loop `depth`.
  std::vector<PatternNode> body(std::size_t depth) const {
    const auto first = nodes_.begin() + static_cast<std::ptrdiff_t>(begin_);
    std::vector<PatternNode> body(first, first + static_cast<std::ptrdiff_t>(period_));
    for (std::size_t i = 0; i < period_; ++i) {
      const std::vector<Expression>& next = nodes_[begin_ + period_ + i].step.numbers;
      std::vector<Expression>& numbers = body[i].step.numbers;
      for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n].loop[depth] = change(numbers[n], next[n]);
    }
    return body;
  }

 private:
  static std::int64_t change(const Expression& from, const Expression& to) {
    const std::int64_t difference = to.base - from.base;
    return from.mod > 0 ? nearest_remainder(difference, from.mod) : difference;
  }

  static bool same_but_base(const Expression& a, const Expression& b) {
    return a.rank == b.rank && a.mod == b.mod && a.plus == b.plus && a.loop == b.loop;
  }

  /// Whether the numbers change from `before` to `here` as they do from `first` to `second`, two steps alike.
  static bool goes_on(const StepPattern& first, const StepPattern& second, const StepPattern& before,
                      const StepPattern& here) {
    if (before.numbers.size() != here.numbers.size() || first.numbers.size() != here.numbers.size() ||
        second.numbers.size() != here.numbers.size())
      return false;
    for (std::size_t n = 0; n < here.numbers.size(); ++n) {
      if (!same_but_base(before.numbers[n], here.numbers[n])) return false;
      if (change(before.numbers[n], here.numbers[n]) != change(first.numbers[n], second.numbers[n])) return false;
    }
    return before.prototype == here.prototype;
  }

  bool follows(std::size_t at) const {
    const std::size_t in_body = begin_ + (at - begin_) % period_;
    return goes_on(nodes_[in_body].step, nodes_[in_body + period_].step, nodes_[at - period_].step, nodes_[at].step);
  }

  const std::vector<PatternNode>& nodes_;
  std::size_t begin_;
  std::size_t period_;
  std::size_t count_ = 0;
};

struct StepLoop {
  std::size_t period = 0;
  std::size_t rounds = 0;
};

/// The loop that starts at `begin` and covers most steps; rounds 0 where there is none.
StepLoop longest_loop(const std::vector<PatternNode>& nodes, std::size_t begin) {
  StepLoop best;
  const std::size_t left = nodes.size() - begin;
  for (std::size_t period = 1; period <= kLongestRound && period * kFewestRounds <= left; ++period) {
    if (!Rounds::can_be(nodes, begin, period)) continue;
    const std::size_t rounds = Rounds(nodes, begin, nodes.size(), period).count();
    if (rounds >= kFewestRounds && rounds * period > best.rounds * best.period) best = {period, rounds};
    if (best.rounds * best.period == left) break;
  }
  return best;
}

std::vector<PatternNode> fold_steps(const std::vector<PatternNode>& nodes, std::size_t depth) {
  if (depth == kMaxLoopDepth) return nodes;
  std::vector<PatternNode> folded;
  for (std::size_t at = 0; at < nodes.size();) {
    const StepLoop loop = longest_loop(nodes, at);
    if (loop.rounds == 0) {
      folded.push_back(nodes[at++]);
      continue;
    }
    PatternNode node;
    node.repeat = static_cast<std::int64_t>(loop.rounds);
    node.body = fold_steps(Rounds(nodes, at, nodes.size(), loop.period).body(depth), depth + 1);
    folded.push_back(std::move(node));
    at += loop.period * loop.rounds;
  }
  return folded;
}

/// The form of `part` with its numbers replaced by `next_number()`, one after the other; loops folded.
template <typename NextNumber>
RankPattern pattern_of(const RankProgram& part, NextNumber&& next_number) {
  RankPattern pattern;
  pattern.scratch_chunks = part.scratch_chunks;
  for (const Worker& worker : part.workers) {
    WorkerPattern to;
    const Expression send_peer = next_number();
    const Expression recv_peer = next_number();
    if (worker.send_peer != kNobody) to.send_peer = send_peer;
    if (worker.recv_peer != kNobody) to.recv_peer = recv_peer;
    to.channel = next_number();
    std::vector<PatternNode> nodes;
    nodes.reserve(worker.steps.size());
    for (const Step& step : worker.steps) {
      PatternNode node;
      node.step.prototype = prototype_of(step);
      visit_numbers(step, [&](int) { node.step.numbers.push_back(next_number()); });
      nodes.push_back(std::move(node));
    }
    to.steps = fold_steps(nodes, 0);
    pattern.workers.push_back(std::move(to));
  }
  return pattern;
}

RankPattern pattern_of_one(const RankProgram& part) {
  std::vector<Expression> numbers;
  visit_part(part, [&](int number) {
    numbers.emplace_back();
    numbers.back().base = number;
  });
  return pattern_of(part, [next = numbers.begin()]() mutable { return *next++; });
}

/// One pattern for all ranks, or nothing.
std::optional<RankPattern> pattern_of_all(const Program& program, const RankProgram& first) {
  std::vector<NumberOverRanks> numbers;
  visit_part(first, [&](int number) { numbers.emplace_back().add(number); });
  for (int rank = 1; rank < program.shape.ranks; ++rank) {
    const RankProgram part = program.part(rank);
    if (!same_form(first, part)) return std::nullopt;
    visit_part(part, [at = numbers.begin()](int number) mutable { (at++)->add(number); });
  }
  std::vector<Expression> expressions;
  expressions.reserve(numbers.size());
  for (const NumberOverRanks& number : numbers) {
    const std::optional<Expression> expression = number.expression();
    if (!expression) return std::nullopt;
    expressions.push_back(*expression);
  }
  return pattern_of(first, [next = expressions.begin()]() mutable { return *next++; });
}

Status check_size(std::int64_t steps, std::int64_t limit, std::string_view of_what) {
  if (steps <= limit) return {};
  return fail(ErrorCode::unsupported, fmt::format("{} steps {} exceed the limit of {}", steps, of_what, limit));
}

}  // namespace

Result<std::optional<RankPattern>> fold_all(const Program& program) {
  const RankProgram first = program.part(0);
  const std::int64_t steps = steps_in(first);
  if (const Status size = check_size(steps, kMaxStepsOfRank, "of rank 0"); !size) return tl::unexpected(size.error());
  if (const Status size = check_size(steps * program.shape.ranks, kMaxStepsOfAllRanks, "of all ranks"); !size)
    return tl::unexpected(size.error());
  return pattern_of_all(program, first);
}

Status fold_each(const Program& program, const std::function<void(const RankPattern&)>& take) {
  std::int64_t taken = 0;
  for (int rank = 0; rank < program.shape.ranks; ++rank) {
    const RankProgram part = program.part(rank);
    taken += steps_in(part);
    // Where the first ranks show that all together are far too many, the others are not made first.
    const std::int64_t expected = rank + 1 == kRanksThatTell ? taken / kRanksThatTell * program.shape.ranks / 2 : 0;
    if (Status far = check_size(expected, kMaxStepsWithoutPattern, "or more of ranks that share no pattern"); !far)
      return far;
    if (Status size = check_size(taken, kMaxStepsWithoutPattern, "of ranks that share no pattern"); !size) return size;
    take(pattern_of_one(part));
  }
  return {};
}

Result<RankPattern> fold_part(const RankProgram& part) {
  if (const Status size = check_size(steps_in(part), kMaxStepsOfRank, "of one rank"); !size)
    return tl::unexpected(size.error());
  return pattern_of_one(part);
}

}  // namespace tutti
