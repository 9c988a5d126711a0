#include "profiler/plugin.hpp"

#include <dlfcn.h>
#include <fmt/core.h>
#include <strings.h>

#include <cstdlib>

#include "base/settings.hpp"

namespace tutti::profiler {
namespace {

/// Other versions of the interface that a library speaks; empty: none.
std::string other_versions(void* library) {
  std::string found;
  for (int version = 1; version <= 9; ++version)
    if (::dlsym(library, fmt::format("ncclProfiler_v{}", version).c_str()) != nullptr)
      found += fmt::format("{}v{}", found.empty() ? "" : ", ", version);
  return found;
}

}  // namespace

std::string wanted_plugin() {
  std::string name = settings().profiler_plugin;
  if (name.empty())
    if (const char* const theirs = std::getenv("NCCL_PROFILER_PLUGIN"); theirs != nullptr) name = theirs;
  return ::strcasecmp(name.c_str(), "none") == 0 ? "" : name;
}

std::vector<std::string> candidates(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos;
  const bool is_library = name.starts_with("lib") && name.ends_with(".so");
  if (is_path || is_library) return {name};
  return {name, fmt::format("libnccl-profiler-{}.so", name)};
}

Result<const abi::Plugin*> load_plugin(const std::string& name) {
  std::string tried;
  for (const std::string& file : candidates(name)) {
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", ::dlerror());
      continue;
    }
    if (const void* const plugin = ::dlsym(library, abi::kSymbol); plugin != nullptr)
      return static_cast<const abi::Plugin*>(plugin);
    const std::string versions = other_versions(library);
    ::dlclose(library);
    return fail(ErrorCode::unsupported, fmt::format("{} exports no {}{}", file, abi::kSymbol,
                                                    versions.empty() ? "" : fmt::format(", only {}", versions)));
  }
  return fail(ErrorCode::system, tried);
}

}  // namespace tutti::profiler
