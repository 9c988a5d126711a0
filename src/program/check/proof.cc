#include "program/check/proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "program/check/check.hpp"
#include "program/translated_parts.hpp"

namespace tutti {
namespace {

constexpr int kMostRanksInFull = 256;
constexpr std::int64_t kMostChunksInFull = 1 << 22;  // moved by programs of more ranks

Error wrong(const Program& program, const Violation& violation, std::string_view judgement = "is wrong",
            std::string_view remark = "") {
  Error error;
  error.code = ErrorCode::invalid_argument;
  error.message =
      fmt::format("program {} of {} over {} ranks {}: {}{}", program.name, name_of(program.shape.collective),
                  program.shape.ranks, judgement, violation.to_string(), remark);
  error.peer = violation.rank;
  if (violation.worker >= 0) error.step = fmt::format("worker {} step {}", violation.worker, violation.step);
  return error;
}

std::string_view numbering_of(const Program& program) {
  return program.likeness.position_of.empty() ? "" : " (ranks are numbered by their positions here)";
}

/// Digits from the finest up, each a multiple of the one before, write every rank in one way.
bool writes_ranks(const Translations& translations, int ranks) {
  std::int64_t below = 1;
  for (const Translations::Digit& digit : translations.digits()) {
    if (digit.stride < 1 || digit.size < 1 || digit.stride % below != 0) return false;
    below = std::int64_t{digit.stride} * digit.size;
    if (below > ranks || ranks % below != 0) return false;
  }
  return true;
}

bool is_permutation(const std::vector<int>& position_of, int ranks) {
  std::vector<int> positions = position_of;
  std::sort(positions.begin(), positions.end());
  if (static_cast<int>(positions.size()) != ranks) return false;
  for (int position = 0; position < ranks; ++position)
    if (positions[static_cast<std::size_t>(position)] != position) return false;
  return true;
}

/// What a program says of its symmetry, made ready for the checker.
struct Claim {
  Program by_position;
  Translations translations;
  int position = 0;  // of the rank
};

/// Nothing if the program claims no symmetry, or one that makes no sense.
std::optional<Claim> claim_of(const Program& program, int rank) {
  const bool has_symmetry = program.symmetry.order() > 1;
  const Translations& translations = has_symmetry ? program.symmetry : program.likeness.translations;
  if (translations.order() < 2 || !writes_ranks(translations, program.shape.ranks)) return std::nullopt;
  if (has_symmetry) return Claim{program, translations, rank};
  const std::vector<int>& position_of = program.likeness.position_of;
  if (position_of.empty()) return Claim{by_position(program), translations, rank};
  if (!is_permutation(position_of, program.shape.ranks)) return std::nullopt;
  return Claim{by_position(program), translations, position_of[static_cast<std::size_t>(rank)]};
}

std::optional<Claim> find_claim(const Program& program, int rank) {
  Claim claim{program, Translations({{1, program.shape.ranks, true}}), rank};
  const bool may_be_alike =
      !has_root(program.shape.collective) && program.shape.collective != Collective::point_to_point;
  for (int other = 1; may_be_alike && other < program.shape.ranks; ++other)
    if (check_part(program, claim.translations, other)) return std::nullopt;
  return may_be_alike ? std::optional(claim) : std::nullopt;
}

Status prove_in_full(const Program& program) {
  const bool many = program.shape.ranks > kMostRanksInFull;
  CheckOptions options;
  if (many) options.max_cells = kMostChunksInFull;
  const CheckReport report = check(program, options);
  if (report.ok()) return {};
  if (!report.violation->too_large) return tl::unexpected(wrong(program, *report.violation));
  return tl::unexpected(wrong(program, *report.violation, "is too large to be proven",
                              ", and its parts are not those of a few ranks, translated"));
}

Status prove_whole(const Program& program, const std::optional<Claim>& claim) {
  if (!claim) return prove_in_full(program);
  const CheckReport report = check_translated(claim->by_position, claim->translations);
  if (!report.ok()) return tl::unexpected(wrong(program, *report.violation, "is wrong", numbering_of(program)));
  return {};
}

Status prove_part(const Program& program, const std::optional<Claim>& claim) {
  if (!claim) return {};
  if (const auto differs = check_part(claim->by_position, claim->translations, claim->position))
    return tl::unexpected(wrong(program, *differs, "is wrong", numbering_of(program)));
  return {};
}

/// What keeps the other functions from indexing out of range.
Status check_arguments(const Program& program, int rank) {
  const Shape& shape = program.shape;
  if (!program.part || shape.ranks < 1 || rank < 0 || rank >= shape.ranks)
    return fail(ErrorCode::invalid_argument,
                fmt::format("program {} of {} ranks has no part for rank {}", program.name, shape.ranks, rank));
  return {};
}

}  // namespace

Result<ProvenProgram> prove(Program program, int rank) {
  if (const Status valid = check_arguments(program, rank); !valid) return tl::unexpected(valid.error());
  std::optional<Claim> claim = claim_of(program, rank);
  if (!claim && program.shape.ranks > kMostRanksInFull) claim = find_claim(program, rank);
  if (const Status whole = prove_whole(program, claim); !whole) return tl::unexpected(whole.error());
  if (const Status part = prove_part(program, claim); !part) return tl::unexpected(part.error());
  return ProvenProgram(std::move(program));
}

Proofs& Proofs::of_process() {
  static Proofs* const proofs = new Proofs;  // outlives static destructors: threads of ours may still start operations
  return *proofs;
}

Result<ProvenProgram> Proofs::prove_once(const std::string& key, Program program, int rank) {
  if (const Status valid = check_arguments(program, rank); !valid) return tl::unexpected(valid.error());
  const std::optional<Claim> claim = claim_of(program, rank);
  {
    const std::lock_guard lock(mutex_);
    if (proven_.count(key) == 0) {
      if (const Status whole = prove_whole(program, claim); !whole) return tl::unexpected(whole.error());
      proven_.insert(key);
      ++made_;
    }
  }
  if (const Status part = prove_part(program, claim); !part) return tl::unexpected(part.error());
  return ProvenProgram(std::move(program));
}

std::uint64_t Proofs::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

}  // namespace tutti
