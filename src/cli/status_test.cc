#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/status_view.hpp"
#include "cli/table.hpp"

namespace tutti::cli {
namespace {}
}  // namespace tutti::cli
