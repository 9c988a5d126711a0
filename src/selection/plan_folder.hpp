// Programs from a folder, as `tutti synth` writes it: every native program file in it that was made for this number of
// ranks runs where its collective and size range say. TUTTI_PLANS names the folder; all ranks must see the same files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/check/proof.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct PlanFolder {
  std::vector<ProvenProgram> programs;  // in the order of file names
  std::uint64_t digest = 0;             // of all programs, of any number of ranks: what ranks compare
};

/// Nothing where `folder` is empty. Files that are no programs (reports, certificates) are passed over; a program that
/// cannot be read or proven for `rank` is an error that names the file.
Result<PlanFolder> load_plan_folder(const std::string& folder, int ranks, int rank);

}  // namespace tutti
