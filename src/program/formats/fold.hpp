// Finds the compact form of a program: whether all ranks do the same up to a shift by the rank, and which steps are
// rounds of a loop. The pattern found expands to exactly the same parts.
#pragma once

#include <functional>
#include <optional>

#include "program/file/pattern.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// The one pattern of all ranks, where there is one. Looks at every rank's part.
/// Fails where a part exceeds kMaxStepsOfRank, or all parts together exceed 64 Mi steps.
Result<std::optional<RankPattern>> fold_all(const Program& program);

/// Each rank's own pattern, one after the other: no two are held at a time. Fails where all parts together exceed 4 Mi
/// steps, having handed out those before.
Status fold_each(const Program& program, const std::function<void(const RankPattern&)>& take);

/// One part alone. Fails where it exceeds kMaxStepsOfRank.
Result<RankPattern> fold_part(const RankProgram& part);

}  // namespace tutti
