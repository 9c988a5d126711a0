#include "monitor/trace/trace_file.hpp"

#include <errno.h>
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "base/fd.hpp"

namespace tutti::monitor {

double trace_microseconds(std::int64_t nanoseconds) {
  double microseconds = static_cast<double>(nanoseconds) / 1000;
  while (static_cast<std::int64_t>(microseconds * 1000) < nanoseconds)
    microseconds = std::nextafter(microseconds, std::numeric_limits<double>::infinity());
  return microseconds;
}

std::int64_t trace_nanoseconds(double microseconds) { return static_cast<std::int64_t>(microseconds * 1000); }

Result<std::unique_ptr<TraceFile>> TraceFile::create(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return system_error(fmt::format("cannot write '{}'", path));
  std::unique_ptr<TraceFile> made(new TraceFile(path, file));
  made->put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  return made;
}

TraceFile::~TraceFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void TraceFile::put(const std::string& text) {
  if (failed_ == 0 && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) failed_ = errno;
}

void TraceFile::write(const TraceEvent& event) {
  put(first_ ? "\n" : ",\n");
  first_ = false;
  put(event.dump(-1, ' ', false, TraceEvent::error_handler_t::replace));
}

void TraceFile::name(std::uint32_t pid, std::uint32_t tid, const std::string& name, int order) {
  const std::string what = tid == 0 ? "process" : "thread";
  TraceEvent event = {{"ph", "M"}, {"name", what + "_name"}, {"pid", pid}, {"args", {{"name", name}}}};
  TraceEvent sorted = {{"ph", "M"}, {"name", what + "_sort_index"}, {"pid", pid}, {"args", {{"sort_index", order}}}};
  if (tid != 0) event["tid"] = sorted["tid"] = tid;
  write(event);
  write(sorted);
}

Status TraceFile::close(const TraceEvent& about) {
  put("\n],\"otherData\":");
  put(about.dump(-1, ' ', false, TraceEvent::error_handler_t::replace));
  put("}\n");
  if (std::fclose(std::exchange(file_, nullptr)) != 0 && failed_ == 0) failed_ = errno;
  if (failed_ == 0) return {};
  errno = failed_;
  return system_error(fmt::format("cannot write '{}'", path_));
}

}  // namespace tutti::monitor
