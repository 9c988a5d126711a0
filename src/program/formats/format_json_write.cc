#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "program/file/format_json.hpp"
#include "program/formats/fold.hpp"
#include "program/translated_parts.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 118;
const char* const kCounters[kMaxLoopDepth] = {"i", "j", "k", "l"};

std::string scalar_text(const Json& value) {
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());  // nearly all are
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The value on one line, or "" once it is longer than `width`.
std::string one_line(const Json& value, std::size_t width) {
  if (!value.is_structured()) return scalar_text(value);
  const bool object = value.is_object();
  std::string line = object ? "{" : "[";
  bool first = true;
  for (auto at = value.begin(); at != value.end(); ++at) {
    if (!first) line += ", ";
    first = false;
    if (object) line.append("\"").append(at.key()).append("\": ");
    const std::string element = one_line(*at, width);
    if (element.empty() || line.size() + element.size() >= width) return "";
    line += element;
  }
  return line + (object ? "}" : "]");
}

void write_value(const Json& value, std::size_t indent, std::size_t used, std::string& out);

/// An object or array without its closing bracket, a line for each element.
void write_members(const Json& value, std::size_t indent, std::string& out) {
  const bool object = value.is_object();
  out += object ? "{" : "[";
  bool first = true;
  for (auto at = value.begin(); at != value.end(); ++at) {
    out += first ? "\n" : ",\n";
    first = false;
    out.append(indent + 2, ' ');
    const std::string key = object ? fmt::format("\"{}\": ", at.key()) : "";
    out += key;
    write_value(*at, indent + 2, indent + 3 + key.size(), out);
  }
}

/// Values that fit stand on one line; longer ones on a line for each element.
void write_value(const Json& value, std::size_t indent, std::size_t used, std::string& out) {
  const std::string line = one_line(value, kLineWidth);
  if (!value.is_structured() || value.empty() || (!line.empty() && used + line.size() <= kLineWidth)) {
    out += line.empty() ? scalar_text(value) : line;
    return;
  }
  write_members(value, indent, out);
  out += '\n';
  out.append(indent, ' ');
  out += value.is_object() ? "}" : "]";
}

Json size_json(std::uint64_t bytes) {
  static constexpr std::string_view kUnits = " KMGT";
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return bytes;
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

/// Writes one rank's pattern, or the one for all.
class PartWriter {
 public:
  PartWriter(int ranks, int first_rank, int last_rank) : ranks_(ranks) {
    domain_.first_rank = first_rank;
    domain_.last_rank = last_rank;
  }

  Json write(const RankPattern& part) {
    Json json;
    if (part.scratch_chunks != 0) json["scratch"] = part.scratch_chunks;
    Json workers = Json::array();
    for (const WorkerPattern& worker : part.workers) {
      Json to;
      if (worker.send_peer) to["send"] = rank_number(*worker.send_peer);
      if (worker.recv_peer) to["recv"] = rank_number(*worker.recv_peer);
      if (worker.channel != Expression{}) to["channel"] = number(worker.channel);
      to["steps"] = nodes(worker.steps, 0);
      workers.push_back(std::move(to));
    }
    json["workers"] = std::move(workers);
    return json;
  }

 private:
  Json nodes(const std::vector<PatternNode>& from, std::size_t depth) {
    Json steps = Json::array();
    for (const PatternNode& node : from) {
      if (node.body.empty()) {
        steps.push_back(step(node.step));
        continue;
      }
      domain_.counts[depth] = node.repeat;
      Json loop;
      loop["repeat"] = node.repeat;
      loop["steps"] = nodes(node.body, depth + 1);
      steps.push_back(std::move(loop));
      domain_.counts[depth] = 1;
    }
    return steps;
  }

  Json step(const StepPattern& pattern) {
    next_ = pattern.numbers.begin();
    const Step& step = pattern.prototype;
    Json json;
    json["kind"] = name_of(step.kind);
    if (step.peer != kNobody) json["peer"] = rank_number(*next_++);
    if (!step.sources.empty()) json["from"] = cells(step.sources);
    if (!step.targets.empty()) json["to"] = cells(step.targets);
    if (step.local_first) json["local_first"] = true;
    if (step.completes) json["completes"] = true;
    if (!step.after.empty()) {
      Json after = Json::array();
      for (std::size_t i = 0; i < step.after.size(); ++i) {
        Json dependency;
        dependency["worker"] = number(*next_++);
        dependency["step"] = number(*next_++);
        after.push_back(std::move(dependency));
      }
      json["after"] = std::move(after);
    }
    return json;
  }

  Json cells(const std::vector<Cells>& from) {
    static constexpr const char* kBuffers[] = {"input", "output", "scratch"};
    Json list = Json::array();
    for (const Cells& cells : from) {
      Json cell;
      const Json rank = cells.rank != kSelf ? rank_number(*next_++) : Json();
      cell[kBuffers[static_cast<std::size_t>(cells.buffer)]] = number(*next_++);
      const Json count = number(*next_++);
      if (count != 1) cell["count"] = count;
      if (cells.rank != kSelf) cell["rank"] = rank;
      list.push_back(std::move(cell));
    }
    return list.size() == 1 ? list[0] : list;
  }

  Json rank_number(const Expression& expression) const {
    Expression shift;
    shift.base = expression.base;
    shift.rank = 1;
    shift.mod = ranks_;
    if (ranks_ == 1 || expression != shift) return number(expression);
    const std::int64_t up = expression.base % ranks_;
    Json json;
    json["relative"] = 2 * up > ranks_ ? up - ranks_ : up;
    return json;
  }

  Json number(const Expression& expression) const {
    Expression plain = expression;
    plain.mod = 0;
    plain.base += plain.plus;
    plain.plus = 0;
    const ValueRange range = range_of(plain, domain_);
    // The remainder may go where it changes nothing.
    if (range.least < expression.plus || (expression.mod > 0 && range.most >= expression.plus + expression.mod))
      plain = expression;
    if (plain.mod > 0 && 2 * plain.base > plain.mod) plain.base -= plain.mod;
    Json json;
    if (plain.base != 0) json["base"] = plain.base;
    if (plain.rank != 0) json["rank"] = plain.rank;
    for (std::size_t depth = 0; depth < kMaxLoopDepth; ++depth)
      if (plain.loop[depth] != 0) json[kCounters[depth]] = plain.loop[depth];
    if (plain.mod == 0 && plain.rank == 0 && plain.loop == Expression{}.loop) return plain.base + plain.plus;
    if (plain.mod != 0) json["mod"] = plain.mod;
    if (plain.plus != 0) json["plus"] = plain.plus;
    return json;
  }

  std::int64_t ranks_;
  Domain domain_;
  std::vector<Expression>::const_iterator next_;
};

Json head_of(const Program& program) {
  Json shape;
  shape["collective"] = name_of(program.shape.collective);
  shape["ranks"] = program.shape.ranks;
  if (has_root(program.shape.collective)) shape["root"] = program.shape.root;
  shape["chunks"] = program.shape.chunks;
  Json json;
  json["format"] = "tutti program 1";
  json["name"] = program.name;
  json["shape"] = std::move(shape);
  if (!program.in_place) json["in_place"] = false;
  if (!program.out_of_place) json["out_of_place"] = false;
  if (program.min_bytes != 0) json["min_bytes"] = size_json(program.min_bytes);
  if (program.max_bytes != 0) json["max_bytes"] = size_json(program.max_bytes);
  if (program.tile != 0) json["tile"] = size_json(program.tile);
  return json;
}

/// Of ranks that translations move to one another, the first alone.
Result<std::string> save_translated(const Program& program) {
  const Translations& symmetry = program.symmetry;
  const int ranks = program.shape.ranks;
  Json json = head_of(program);
  for (const Translations::Digit& digit : symmetry.digits())
    if (digit.moves) json["moved_by"].push_back({digit.stride, digit.size});
  for (int rank = 0; rank < ranks; ++rank) {
    if (symmetry.representative_of(rank) != rank) continue;
    const RankProgram part = program.part(rank);
    if (Status movable = check_translatable(part, program.shape, symmetry); !movable)
      return tl::unexpected(movable.error());
    const auto pattern = fold_part(part);
    if (!pattern) return tl::unexpected(pattern.error());
    json["homes"].push_back(PartWriter(ranks, rank, rank).write(*pattern));
  }
  std::string text;
  write_value(json, 0, 0, text);
  return text + '\n';
}

}  // namespace

Result<std::string> save_json(const Program& program) {
  if (program.symmetry.order() > 1) return save_translated(program);
  const auto pattern = fold_all(program);
  if (!pattern) return tl::unexpected(pattern.error());
  Json json = head_of(program);
  const int ranks = program.shape.ranks;
  std::string text;
  if (*pattern) {
    json["every_rank"] = PartWriter(ranks, 0, ranks - 1).write(**pattern);
    write_value(json, 0, 0, text);
    return text + '\n';
  }
  // Parts of many ranks are written as they come, since all of them at once would take gigabytes.
  write_members(json, 0, text);
  text += ",\n  \"ranks\": [";
  int rank = 0;
  const Status written = fold_each(program, [&](const RankPattern& part) {
    text += rank == 0 ? "\n    " : ",\n    ";
    write_value(PartWriter(ranks, rank, rank).write(part), 4, 5, text);
    ++rank;
  });
  if (!written) return tl::unexpected(written.error());
  return text + "\n  ]\n}\n";
}

}  // namespace tutti
