// A trace in Chrome's trace event format (JSON), which the Perfetto UI opens, written as it comes: an event on each
// line, so that nothing is kept and such files can be read a line at a time again. One thread. What cannot be written
// is told when the file is closed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tutti/error.hpp"

namespace tutti::monitor {

using TraceEvent = nlohmann::ordered_json;

/// Nanoseconds as the format has them, so that readers which cut off what is less than a nanosecond get them back
/// exactly: slices that follow each other must not overlap.
double trace_microseconds(std::int64_t nanoseconds);
std::int64_t trace_nanoseconds(double microseconds);

class TraceFile {
 public:
  static Result<std::unique_ptr<TraceFile>> create(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void write(const TraceEvent& event);
  /// Names a process or a thread of the trace. `tid` 0: the process.
  void name(std::uint32_t pid, std::uint32_t tid, const std::string& name, int order);
  /// `about`: what is known of the whole.
  Status close(const TraceEvent& about);

 private:
  TraceFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void put(const std::string& text);

  std::string path_;
  std::FILE* file_;
  bool first_ = true;
  int failed_ = 0;  // errno of the first failure
};

}  // namespace tutti::monitor
