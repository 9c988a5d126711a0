// The table of `tutti tune`: rules measured on this machine for a layout of ranks, one per line, in a file per layout.
#pragma once

#include <string>
#include <vector>

#include "selection/selection.hpp"

namespace tutti {

/// TUTTI_TUNE_FILE, else a file of the user's cache folder that names the layout and the kind of CPU.
std::string tuning_path(int ranks, int hosts);

/// The rules of the file; none where there is no file. Lines that start with # are comments.
Result<std::vector<SelectionRule>> load_tuning(const std::string& path);
/// Replaces the file in one step.
Status save_tuning(const std::string& path, const std::vector<SelectionRule>& rules, const std::string& comment);

}  // namespace tutti
