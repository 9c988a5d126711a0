#include "program/file/format_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "documents/json_value.hpp"
#include "program/file/part_reader.hpp"
#include "program/file/pattern.hpp"
#include "program/translated_parts.hpp"

namespace tutti {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 20;
constexpr int kMaxDepth = 32;
constexpr std::int64_t kProofBudget = 1 << 24;  // evaluations, in all, to show that numbers stay in range

std::uint64_t read_size(const JsonValue& value) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  if (!value.is_text()) return static_cast<std::uint64_t>(value.integer(0, kMost));
  const std::string& text = value.text();
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::size_t unit = digits + 1 == text.size() ? std::string_view("KMGT").find(text[digits]) : std::string::npos;
  if (digits == 0 || digits > 18 || (digits != text.size() && unit == std::string::npos))
    value.fail(fmt::format("{} is no size; expected a number, or one with K, M, G or T", value.shown()));
  const auto number = static_cast<std::int64_t>(std::stoull(text.substr(0, digits)));
  const int shift = digits == text.size() ? 0 : 10 * static_cast<int>(unit + 1);
  if (number > kMost >> shift) value.fail(fmt::format("{} is too large", value.shown()));
  return static_cast<std::uint64_t>(number) << shift;
}

Shape read_shape(const JsonValue& value) {
  value.expect_keys({"collective", "ranks", "root", "chunks"});
  Shape shape;
  shape.collective = read_name<Collective>(value.at("collective"), kCollectives, "collective");
  shape.ranks = static_cast<int>(value.at("ranks").integer(1, kMaxRanksOfFile));
  shape.chunks = static_cast<int>(value.at("chunks").integer(1, kMaxChunksOfBuffer / shape.ranks));
  if (value.has("root")) {
    if (!has_root(shape.collective)) value.at("root").fail(fmt::format("{} has no root", name_of(shape.collective)));
    shape.root = static_cast<int>(value.at("root").integer(0, shape.ranks - 1));
  }
  if (shape.collective == Collective::point_to_point && shape.ranks != 2)
    value.at("ranks").fail(fmt::format("{} ranks; point_to_point has 2", shape.ranks));
  return shape;
}

/// Digits from the finest up, each a multiple of the one before, so that every rank is written in one way.
Translations read_translations(const JsonValue& value, const Shape& shape) {
  std::vector<Translations::Digit> digits;
  for (const JsonValue& element : value.elements()) {
    const auto pair = element.elements();
    if (pair.size() != 2) element.fail(fmt::format("{} is no pair of stride and size", element.shown()));
    const std::int64_t below = digits.empty() ? 1 : std::int64_t{digits.back().stride} * digits.back().size;
    const std::int64_t stride = pair[0].integer(1, shape.ranks), size = pair[1].integer(2, shape.ranks);
    if (stride % below != 0 || shape.ranks % (stride * size) != 0)
      element.fail(fmt::format("{} is no digit of {} ranks above a stride of {}", element.shown(), shape.ranks, below));
    digits.push_back({static_cast<int>(stride), static_cast<int>(size), true});
  }
  if (digits.empty()) value.fail("is empty; expected pairs of stride and size");
  return Translations(std::move(digits));
}

/// Parts of which the others are translated.
std::vector<RankProgram> read_representatives(const JsonValue& value, const Program& program, bool& one_sided) {
  const Shape& shape = program.shape;
  const std::vector<JsonValue> entries = value.elements();
  const auto expected = static_cast<std::size_t>(shape.ranks / program.symmetry.order());
  if (entries.size() != expected)
    value.fail(fmt::format("{} entries; moved_by leaves {} homes of {} ranks", entries.size(), expected, shape.ranks));
  std::int64_t proof_budget = kProofBudget, steps = 0;
  std::vector<RankProgram> representatives;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    if (program.symmetry.representative_of(rank) != rank) continue;
    const JsonValue& entry = entries[representatives.size()];
    representatives.push_back(expand(read_part(entry, shape, rank, rank, proof_budget, one_sided), rank));
    for (const Worker& worker : representatives.back().workers) steps += static_cast<std::int64_t>(worker.steps.size());
    if (steps > kMaxStepsOfRank) entry.fail(fmt::format("more than {} steps of all homes", kMaxStepsOfRank));
    if (Status ok = check_translatable(representatives.back(), shape, program.symmetry); !ok)
      entry.fail(ok.error().message);
  }
  return representatives;
}

ProgramPattern read_parts(const JsonValue& root, const Shape& shape, bool& one_sided) {
  std::int64_t proof_budget = kProofBudget;
  ProgramPattern pattern;
  if (root.has("every_rank")) {
    pattern.parts.push_back(read_part(root.at("every_rank"), shape, 0, shape.ranks - 1, proof_budget, one_sided));
    return pattern;
  }
  const std::vector<JsonValue> ranks = root.at("ranks").elements();
  if (ranks.size() != static_cast<std::size_t>(shape.ranks))
    root.at("ranks").fail(fmt::format("{} entries; the shape has {} ranks", ranks.size(), shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank)
    pattern.parts.push_back(
        read_part(ranks[static_cast<std::size_t>(rank)], shape, rank, rank, proof_budget, one_sided));
  return pattern;
}

Program read_program(const JsonValue& root) {
  root.expect_keys({"format", "name", "shape", "in_place", "out_of_place", "min_bytes", "max_bytes", "tile",
                    "every_rank", "ranks", "moved_by", "homes"});
  if (root.at("format").text() != "tutti program 1")
    root.at("format").fail(fmt::format("{} is not known; expected 'tutti program 1'", root.at("format").shown()));
  Program program;
  program.name = root.at("name").text();
  program.shape = read_shape(root.at("shape"));
  if (root.has("in_place")) program.in_place = root.at("in_place").flag();
  if (root.has("out_of_place")) program.out_of_place = root.at("out_of_place").flag();
  if (!program.in_place && !program.out_of_place) root.fail("neither in_place nor out_of_place: it may never run");
  if (root.has("min_bytes")) program.min_bytes = read_size(root.at("min_bytes"));
  if (root.has("max_bytes")) program.max_bytes = read_size(root.at("max_bytes"));
  if (root.has("tile")) program.tile = read_size(root.at("tile"));
  if (program.max_bytes != 0 && program.max_bytes < program.min_bytes)
    root.at("max_bytes").fail(fmt::format("{} is less than min_bytes", root.at("max_bytes").shown()));
  if (int(root.has("ranks")) + int(root.has("every_rank")) + int(root.has("homes")) != 1)
    root.fail("expected one of 'every_rank', 'ranks' and 'homes'");
  if (root.has("homes") != root.has("moved_by")) root.fail("'homes' and 'moved_by' go together");
  if (root.has("homes")) {
    program.symmetry = read_translations(root.at("moved_by"), program.shape);
    program.part = translated_parts(read_representatives(root.at("homes"), program, program.one_sided), program.shape,
                                    program.symmetry);
    return program;
  }
  auto pattern = std::make_shared<const ProgramPattern>(read_parts(root, program.shape, program.one_sided));
  program.part = [pattern](int rank) { return expand(pattern->of(rank), rank); };
  return program;
}

}  // namespace

Result<Program> load_json(std::string_view text) {
  if (text.size() > kMaxText)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} bytes of JSON exceed the limit of {}", text.size(), kMaxText));
  try {
    const JsonDocument document(text, kMaxDepth);
    return read_program(JsonValue(document));
  } catch (const InputError& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace tutti
