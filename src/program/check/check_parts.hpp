// The parts of a program side by side, workers numbered through, and the words in which the checker speaks of them: the
// parts of all ranks, or of the representatives if the others' are theirs, translated (check_orbits.hpp). Internal to
// the checker and to plans (mscclpp_plan.hpp). `gather_parts` applies the rule `limits`: whatever it returns has every
// rank, buffer, chunk, peer and dependency in range and every step in the shape its kind demands, so later rules index
// freely.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "program/check/check.hpp"
#include "program/check/check_orbits.hpp"
#include "program/program.hpp"

namespace tutti::checking {

template <typename T>
using Checked = tl::expected<T, Violation>;

/// A step of a worker of a rank; -1 where not known.
struct StepPosition {
  int rank = -1;
  int worker = -1;
  int step = -1;
};

struct ProgramParts {
  struct WorkerId {
    int rank;
    int worker;
  };

  Shape shape;
  bool one_sided = false;  // steps may touch cells of other ranks
  Orbits orbits;
  std::vector<RankProgram> ranks;  // the representatives' parts; without a symmetry every rank is a representative
  std::vector<WorkerId> workers;   // of all representatives, in order
  std::vector<int> first_worker;   // of each representative, as an index into `workers`

  const RankProgram& part_of(int representative) const {
    return ranks[static_cast<std::size_t>(orbits.representative_index(representative))];
  }

  const Worker& worker(int number) const {
    const WorkerId& id = workers[static_cast<std::size_t>(number)];
    return part_of(id.rank).workers[static_cast<std::size_t>(id.worker)];
  }
  int rank_of(int number) const { return workers[static_cast<std::size_t>(number)].rank; }
};

/// With a symmetry, the parts of the representatives alone are looked at.
Checked<ProgramParts> gather_parts(const Program& program, const CheckOptions& options,
                                   const Translations& symmetry = {});

/// Arithmetic happens in this collective; in a barrier it is an arithmetic of nothing.
inline bool combines(Collective collective) { return reduces(collective) || collective == Collective::barrier; }

Violation broken(Violation::Rule rule, StepPosition place, std::string message);

/// "rank 1 worker 0 step 3"
std::string describe(StepPosition place);
/// "recv from rank 1"
std::string describe(const Worker& worker, const Step& step);
/// "output 3" of the rank itself, "rank 1's output 3" of another; `offset` counts chunks from the first.
std::string describe(const Cells& cells, int offset, int self);

}  // namespace tutti::checking
