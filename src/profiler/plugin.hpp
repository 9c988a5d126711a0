// Finds and loads a profiler plugin. It stays loaded until the process ends: it may have threads of its own. Any
// thread.
#pragma once

#include <string>
#include <vector>

#include "profiler/abi.hpp"
#include "tutti/error.hpp"

namespace tutti::profiler {

/// What the settings name, as NCCL_PROFILER_PLUGIN does: a path, the name of a library, or NAME for
/// libnccl-profiler-NAME.so. TUTTI_PROFILER_PLUGIN, else NCCL_PROFILER_PLUGIN; empty or "none": no plugin.
std::string wanted_plugin();

/// The files to look for, in this order.
std::vector<std::string> candidates(const std::string& name);

/// The error says what was tried.
Result<const abi::Plugin*> load_plugin(const std::string& name);

}  // namespace tutti::profiler
