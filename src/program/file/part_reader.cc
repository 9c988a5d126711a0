#include "program/file/part_reader.hpp"

#include <string>
#include <utility>

namespace tutti {
namespace {

constexpr std::int64_t kMaxWorkers = 4096;
constexpr std::int64_t kMaxChannels = 1024;
constexpr std::int64_t kMaxFactor = std::int64_t{1} << 31;
const char* const kCounters[kMaxLoopDepth] = {"i", "j", "k", "l"};

/// Steps after expansion. Reads nothing but loops.
std::int64_t count_steps(const JsonValue& steps, std::size_t depth) {
  std::int64_t total = 0;
  for (const JsonValue& step : steps.elements()) {
    if (!step.has("repeat")) {
      ++total;
    } else {
      if (depth == kMaxLoopDepth) step.fail(fmt::format("loops are nested deeper than {}", kMaxLoopDepth));
      total += step.at("repeat").integer(1, kMaxStepsOfRank) * count_steps(step.at("steps"), depth + 1);
    }
    if (total > kMaxStepsOfRank) steps.fail(fmt::format("more than {} steps", kMaxStepsOfRank));
  }
  return total;
}

/// How many cells, and whether a peer, a step of a kind takes.
struct StepForm {
  std::size_t least_from, most_from, least_to, most_to;
  bool peer;
};
StepForm form_of(StepKind kind) {
  constexpr std::size_t kMany = 1 << 20;
  switch (kind) {
    case StepKind::nop:
      return {0, 0, 0, 0, false};
    case StepKind::send:
      return {1, 1, 0, 0, false};
    case StepKind::recv:
    case StepKind::recv_copy_send:
      return {0, 0, 1, 1, false};
    case StepKind::recv_reduce_send:
      return {1, 1, 0, 0, false};
    case StepKind::recv_reduce:
    case StepKind::recv_reduce_copy_send:
    case StepKind::copy:
      return {1, 1, 1, 1, false};
    case StepKind::reduce:
      return {1, kMany, 1, kMany, false};
    case StepKind::signal:
    case StepKind::wait:
      return {0, 0, 0, 0, true};
  }
  return {0, 0, 0, 0, false};
}

/// Reads one rank's pattern, or the one for all.
class PartReader {
 public:
  PartReader(const Shape& shape, int first_rank, int last_rank, std::int64_t& proof_budget, bool& one_sided)
      : shape_(shape), proof_budget_(proof_budget), one_sided_(one_sided) {
    domain_.first_rank = first_rank;
    domain_.last_rank = last_rank;
  }

  RankPattern read(const JsonValue& value) {
    value.expect_keys({"scratch", "workers"});
    if (value.has("scratch"))
      part_.scratch_chunks = static_cast<int>(value.at("scratch").integer(0, kMaxChunksOfBuffer));
    const std::vector<JsonValue> workers = value.at("workers").elements();
    if (static_cast<std::int64_t>(workers.size()) > kMaxWorkers)
      value.at("workers").fail(fmt::format("{} workers exceed the limit of {}", workers.size(), kMaxWorkers));
    std::int64_t total = 0;
    for (const JsonValue& worker : workers) {
      worker.expect_keys({"send", "recv", "channel", "steps"});
      steps_of_worker_.push_back(count_steps(worker.at("steps"), 0));
      total += steps_of_worker_.back();
      if (total > kMaxStepsOfRank) value.fail(fmt::format("more than {} steps", kMaxStepsOfRank));
    }
    for (const JsonValue& worker : workers) part_.workers.push_back(read_worker(worker));
    return std::move(part_);
  }

 private:
  WorkerPattern read_worker(const JsonValue& value) {
    WorkerPattern worker;
    if (value.has("send")) worker.send_peer = rank_number(value.at("send"));
    if (value.has("recv")) worker.recv_peer = rank_number(value.at("recv"));
    if (value.has("channel")) worker.channel = number(value.at("channel"), 0, kMaxChannels - 1);
    worker.steps = read_steps(value.at("steps"), worker);
    return worker;
  }

  std::vector<PatternNode> read_steps(const JsonValue& value, const WorkerPattern& worker) {
    std::vector<PatternNode> nodes;
    for (const JsonValue& element : value.elements())
      nodes.push_back(element.has("repeat") ? read_loop(element, worker) : read_step(element, worker));
    return nodes;
  }

  PatternNode read_loop(const JsonValue& value, const WorkerPattern& worker) {
    value.expect_keys({"repeat", "as", "steps"});
    const std::string counter = value.has("as") ? value.at("as").text() : kCounters[counters_.size()];
    check_counter(value, counter);
    PatternNode loop;
    loop.repeat = value.at("repeat").integer(1, kMaxStepsOfRank);
    domain_.counts[counters_.size()] = loop.repeat;
    counters_.push_back(counter);
    loop.body = read_steps(value.at("steps"), worker);
    counters_.pop_back();
    domain_.counts[counters_.size()] = 1;
    if (loop.body.empty()) value.at("steps").fail("a loop without steps");
    return loop;
  }

  void check_counter(const JsonValue& value, const std::string& name) const {
    const bool letters = !name.empty() && name.size() <= 16 &&
                         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    if (!letters) value.at("as").fail(fmt::format("{} is no name; expected small letters", value.at("as").shown()));
    for (const char* taken : {"base", "rank", "mod", "plus", "relative"})
      if (name == taken) value.at("as").fail(fmt::format("'{}' has a meaning of its own", name));
    if (std::find(counters_.begin(), counters_.end(), name) != counters_.end())
      value.fail(fmt::format("counter '{}' is that of a loop around this one; name another with 'as'", name));
  }

  PatternNode read_step(const JsonValue& value, const WorkerPattern& worker) {
    value.expect_keys({"kind", "from", "to", "peer", "local_first", "completes", "after"});
    PatternNode node;
    Step& step = node.step.prototype;
    step.kind = read_name<StepKind>(value.at("kind"), static_cast<int>(StepKind::wait) + 1, "step kind");
    check_peers(value, step.kind, worker);
    const StepForm form = form_of(step.kind);
    if (value.has("peer") != form.peer)
      value.fail(fmt::format("{} {} 'peer'", name_of(step.kind), form.peer ? "needs a" : "takes no"));
    if (form.peer) {
      step.peer = 0;
      one_sided_ = true;
      node.step.numbers.push_back(rank_number(value.at("peer")));
    }
    step.sources = read_cells(value, "from", step.kind, form.least_from, form.most_from, node.step.numbers);
    step.targets = read_cells(value, "to", step.kind, form.least_to, form.most_to, node.step.numbers);
    step.local_first = value.has("local_first") && value.at("local_first").flag();
    step.completes = value.has("completes") && value.at("completes").flag();
    if (value.has("after")) step.after = read_after(value.at("after"), node.step.numbers);
    return node;
  }

  static void check_peers(const JsonValue& value, StepKind kind, const WorkerPattern& worker) {
    if (sends(kind) && !worker.send_peer)
      value.at("kind").fail(fmt::format("{} in a worker that has no 'send' peer", name_of(kind)));
    if (receives(kind) && !worker.recv_peer)
      value.at("kind").fail(fmt::format("{} in a worker that has no 'recv' peer", name_of(kind)));
  }

  std::vector<Cells> read_cells(const JsonValue& step, const char* key, StepKind kind, std::size_t least,
                                std::size_t most, std::vector<Expression>& numbers) {
    std::vector<JsonValue> elements;
    if (step.has(key)) elements = step.at(key).is_array() ? step.at(key).elements() : std::vector{step.at(key)};
    if (elements.size() < least || elements.size() > most) {
      const std::string expected = most == 0 ? "none" : least == most ? fmt::format("{}", least) : "one or more";
      step.fail(fmt::format("{} cells in '{}'; {} takes {}", elements.size(), key, name_of(kind), expected));
    }
    std::vector<Cells> cells;
    for (const JsonValue& element : elements) cells.push_back(read_cell(element, numbers));
    return cells;
  }

  Cells read_cell(const JsonValue& value, std::vector<Expression>& numbers) {
    value.expect_keys({"input", "output", "scratch", "count", "rank"});
    static constexpr std::pair<const char*, Buffer> kBuffers[] = {
        {"input", Buffer::input}, {"output", Buffer::output}, {"scratch", Buffer::scratch}};
    Cells cells;
    const char* buffer = nullptr;
    for (const auto& [name, kind] : kBuffers) {
      if (!value.has(name)) continue;
      if (buffer != nullptr) value.fail(fmt::format("names both '{}' and '{}'", buffer, name));
      buffer = name;
      cells.buffer = kind;
    }
    if (buffer == nullptr) value.fail("names no buffer; expected one of input, output, scratch");
    if (value.has("rank")) {
      cells.rank = 0;
      one_sided_ = true;
      numbers.push_back(rank_number(value.at("rank")));
    }
    const std::int64_t chunks = chunks_in(cells);
    Expression count;
    count.base = 1;
    if (value.has("count")) count = number(value.at("count"), 1, kMaxChunksOfBuffer);
    numbers.push_back(number(value.at(buffer), 0, chunks - 1));
    check_end(value.at(buffer), numbers.back(), count, chunks);
    numbers.push_back(count);
    cells.first = cells.count = 0;
    return cells;
  }

  /// Chunks of a buffer, or of the largest it may be where ranks differ.
  std::int64_t chunks_in(const Cells& cells) const {
    const bool self = cells.rank == kSelf;
    if (cells.buffer == Buffer::scratch) return self ? part_.scratch_chunks : kMaxChunksOfBuffer;
    const auto chunks = cells.buffer == Buffer::input ? input_chunks : output_chunks;
    if (self && domain_.first_rank == domain_.last_rank) return chunks(shape_, static_cast<int>(domain_.first_rank));
    int most = 0;
    for (const int rank : {0, shape_.ranks - 1, shape_.root}) most = std::max(most, chunks(shape_, rank));
    return most;
  }

  std::vector<Dependency> read_after(const JsonValue& value, std::vector<Expression>& numbers) {
    std::vector<Dependency> after;
    for (const JsonValue& element : value.elements()) {
      element.expect_keys({"worker", "step"});
      const auto workers = static_cast<std::int64_t>(steps_of_worker_.size());
      const Expression worker = number(element.at("worker"), 0, workers - 1);
      const Expression step = any_number(element.at("step"));
      check_dependency(element.at("step"), worker, step);
      numbers.push_back(worker);
      numbers.push_back(step);
      after.push_back({0, 0});
    }
    return after;
  }

  /// The worker must have that step, each time.
  void check_dependency(const JsonValue& value, const Expression& worker, const Expression& step) {
    const ValueRange workers = range_of(worker, domain_), steps = range_of(step, domain_);
    const auto steps_of = [&](std::int64_t w) { return steps_of_worker_[static_cast<std::size_t>(w)]; };
    std::int64_t fewest = kMaxStepsOfRank;
    const auto last = std::min(workers.most, static_cast<std::int64_t>(steps_of_worker_.size()) - 1);
    for (std::int64_t w = std::max<std::int64_t>(workers.least, 0); w <= last; ++w)
      fewest = std::min(fewest, steps_of(w));
    if (steps.least >= 0 && steps.most < fewest) return;
    prove(value, either(step, worker), [&](const EvaluationPoint& place) {
      const std::int64_t number = evaluate(step, place), most = steps_of(evaluate(worker, place)) - 1;
      if (number < 0 || number > most) fail_at(value, step, place, number, 0, most);
    });
  }

  Expression rank_number(const JsonValue& value) {
    if (!value.has("relative")) return number(value, 0, shape_.ranks - 1);
    value.expect_keys({"relative"});
    Expression expression;
    expression.base = value.at("relative").integer(-kMaxRanksOfFile, kMaxRanksOfFile);
    expression.rank = 1;
    expression.mod = shape_.ranks;
    return expression;
  }

  Expression any_number(const JsonValue& value) const {
    if (value.is_object()) return read_expression(value);
    Expression expression;
    expression.base = value.integer(-kMaxFactor, kMaxFactor);
    return expression;
  }

  Expression number(const JsonValue& value, std::int64_t least, std::int64_t most) {
    const Expression expression = any_number(value);
    const ValueRange range = range_of(expression, domain_);
    if (range.least >= least && range.most <= most) return expression;
    prove(value, expression, [&](const EvaluationPoint& place) {
      const std::int64_t number = evaluate(expression, place);
      if (number < least || number > most) fail_at(value, expression, place, number, least, most);
    });
    return expression;
  }

  void check_end(const JsonValue& value, const Expression& first, const Expression& count, std::int64_t chunks) {
    if (range_of(first, domain_).most + range_of(count, domain_).most <= chunks) return;
    prove(value, either(first, count), [&](const EvaluationPoint& place) {
      const std::int64_t begin = evaluate(first, place);
      const std::int64_t cells = evaluate(count, place);
      if (begin + cells > chunks)
        value.fail(fmt::format("{} chunks from {} on; the buffer has {}", cells, begin, chunks));
    });
  }

  /// Depends on whatever either depends on.
  static Expression either(Expression one, const Expression& other) {
    if (other.rank != 0) one.rank = 1;
    for (std::size_t d = 0; d < kMaxLoopDepth; ++d)
      if (other.loop[d] != 0) one.loop[d] = 1;
    return one;
  }

  Expression read_expression(const JsonValue& value) const {
    std::vector<std::string> allowed = {"base", "rank", "mod", "plus"};
    allowed.insert(allowed.end(), counters_.begin(), counters_.end());
    value.expect_keys(allowed);
    Expression expression;
    for (const auto& [key, member] : value.members()) {
      const std::int64_t term = member.integer(key == "mod" ? 1 : -kMaxFactor, kMaxFactor);
      const auto counter = std::find(counters_.begin(), counters_.end(), key);
      if (counter != counters_.end()) {
        expression.loop[static_cast<std::size_t>(counter - counters_.begin())] = term;
      } else {
        (key == "base"   ? expression.base
         : key == "rank" ? expression.rank
         : key == "mod"  ? expression.mod
                         : expression.plus) = term;
      }
    }
    return expression;
  }

  [[noreturn]] void fail_at(const JsonValue& value, const Expression& expression, const EvaluationPoint& place,
                            std::int64_t number, std::int64_t least, std::int64_t most) const {
    std::string where;
    if (expression.rank != 0) where = fmt::format(" at rank {}", place.rank);
    for (std::size_t d = 0; d < counters_.size(); ++d)
      if (expression.loop[d] != 0)
        where += fmt::format("{} {} = {}", where.empty() ? " at" : ",", counters_[d], place.loop[d]);
    const std::string expected = most < least ? "there are none" : fmt::format("expected {} to {}", least, most);
    value.fail(fmt::format("{}{} is out of range; {}", number, where, expected));
  }

  /// Calls `check` for every place where the expression may differ.
  template <typename Check>
  void prove(const JsonValue& value, const Expression& expression, Check&& check) {
    std::int64_t places = expression.rank != 0 ? domain_.last_rank - domain_.first_rank + 1 : 1;
    for (std::size_t d = 0; d < kMaxLoopDepth; ++d)
      if (expression.loop[d] != 0) places *= domain_.counts[d];
    if (places > proof_budget_) value.fail(fmt::format("{} cannot be shown to stay in range", value.shown()));
    proof_budget_ -= places;
    EvaluationPoint place;
    for (std::int64_t index = 0; index < places; ++index) {
      std::int64_t rest = index;
      place.rank = domain_.first_rank;
      if (expression.rank != 0) {
        const std::int64_t ranks = domain_.last_rank - domain_.first_rank + 1;
        place.rank += rest % ranks;
        rest /= ranks;
      }
      for (std::size_t d = 0; d < kMaxLoopDepth; ++d) {
        if (expression.loop[d] == 0) continue;
        place.loop[d] = rest % domain_.counts[d];
        rest /= domain_.counts[d];
      }
      check(place);
    }
  }

  const Shape& shape_;
  std::int64_t& proof_budget_;
  bool& one_sided_;
  Domain domain_;
  std::vector<std::string> counters_;  // of the loops around, outermost first
  std::vector<std::int64_t> steps_of_worker_;
  RankPattern part_;
};

}  // namespace

RankPattern read_part(const JsonValue& value, const Shape& shape, int first_rank, int last_rank,
                      std::int64_t& proof_budget, bool& one_sided) {
  return PartReader(shape, first_rank, last_rank, proof_budget, one_sided).read(value);
}

}  // namespace tutti
