// What tests of TACCL's stages share: the examples.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "synthesis/taccl/taccl_shipped.hpp"

namespace tutti {

inline ShippedCase shipped_case(const std::string& topology, const std::string& sketch, Collective collective) {
  const auto cases = shipped_cases(TUTTI_EXAMPLES);
  for (const ShippedCase& one : cases.value())
    if (one.topology == topology && one.sketch == sketch && one.collective == collective) return one;
  ADD_FAILURE() << "no example " << topology << " " << sketch;
  return {};
}

}  // namespace tutti
