// MSCCL's XML files, for exchange with synthesizers and the runtimes that execute them. Two dialects are spoken:
// microsoft/msccl, and msccl-executor-nccl with RCCL. Reading takes either, writing is told which.
//
// XML holds less than a program. It has no one-sided steps and no n-ary reduction into many targets; it says neither
// which operand comes first nor which step completes a reduction, and no root: written files carry a `root` attribute
// that the runtimes ignore; elsewhere the root is the only rank that receives (or sends) nothing.
// In files for in-place calls only, input and output are one buffer, and cells are named through either.
#pragma once

#include <string>
#include <string_view>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

enum class MscclDialect {
  msccl,     // reduce_scatter; no gather, scatter
  executor,  // reducescatter; maxBytes 0: no limit
};

/// Checks every attribute; errors name line, element and value. Input may be hostile (at most 64 MiB).
/// Steps keep their numbers; `re` becomes a reduce of two cells. `completes` is not set: see annotate_completion.
Result<Program> load_msccl(std::string_view text);

struct MscclOptions {
  MscclDialect dialect = MscclDialect::executor;
  std::string protocol = "Simple";  // Simple, LL, LL128
};

/// Fails with a sentence that names the first step or limit in the way. An n-ary reduction becomes consecutive `re`,
/// further dependencies become `nop`, and cells of more than 71 chunks are split.
Result<std::string> save_msccl(const Program& program, const MscclOptions& options = {});

}  // namespace tutti
