// Traces of several hosts as one: processes and threads are numbered anew, and arrows drawn between ranks of all of
// them. Reads files that TraceFile has written, a line at a time. One thread.
#pragma once

#include <string>
#include <vector>

#include "monitor/trace/trace_file.hpp"

namespace tutti::monitor {

/// What is to be said of the whole, for TraceFile::close. The error names the file, the line and what is wrong.
Result<TraceEvent> merge_traces(const std::vector<std::string>& paths, TraceFile& output);

}  // namespace tutti::monitor
