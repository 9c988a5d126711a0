// The library's version.
#pragma once

#define TUTTI_VERSION_STRING "0.1.0"

namespace tutti {

/// "0.1.0", of the library that is linked.
const char* version();

}  // namespace tutti
