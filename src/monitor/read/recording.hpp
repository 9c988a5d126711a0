// A recording turned into plain values. Whatever the bytes are, what comes out is well-formed: texts are printable,
// numbers finite, ranks within their communicators, values of enumerations known; records that are not are left out.
#pragma once

#include "monitor/read/image.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::monitor {

/// `file` and `alive` are the caller's to set. `alive` matters to how ticks become seconds.
Result<ProcessView> read_recording(const RecordingSource& source, bool alive, const Detail& detail);

/// Nanoseconds of CLOCK_MONOTONIC.
std::uint64_t monotonic_nanoseconds();

}  // namespace tutti::monitor
