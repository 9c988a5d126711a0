// What tests of TACCL's stages share: the examples.
#pragma once

#include <string>

#include "synthesis/taccl/taccl_shipped.hpp"

namespace tutti {

/// One of the shipped examples; a test that asks for one that is not there fails. Defined in taccl_test.cc.
ShippedCase shipped_case(const std::string& topology, const std::string& sketch, Collective collective);

}  // namespace tutti
