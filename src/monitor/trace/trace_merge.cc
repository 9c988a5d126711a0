#include "monitor/trace/trace_merge.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string_view>

#include "base/fd.hpp"
#include "monitor/trace/trace_arrows.hpp"
#include "monitor/trace/trace_tracks.hpp"

namespace tutti::monitor {
namespace {

constexpr std::string_view kHead = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
constexpr std::string_view kTail = "],\"otherData\":";

/// One of the files, as far as it was read.
struct Input {
  std::string path;
  std::ifstream file;
  int line = 1;
  double time = 0;                                   // of the last event, as it stands in the file
  std::map<std::uint32_t, std::uint32_t> numbers{};  // processes and threads, as they are numbered anew
  bool done = false;
  TraceEvent about{};

  static Result<Input> open(const std::string& path) {
    Input input{.path = path, .file = std::ifstream(path)};
    std::string line;
    if (!input.file) return system_error(fmt::format("cannot read '{}'", path));
    if (!std::getline(input.file, line) || line != kHead)
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' was not written by tutti trace", path));
    return input;
  }

  /// The next event; none where it is done.
  Result<TraceEvent> next() {
    std::string text;
    if (!std::getline(file, text)) return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not complete", path));
    ++line;
    done = text.starts_with(kTail);
    std::string_view body = text;
    if (done) body = body.substr(kTail.size(), body.size() - kTail.size() - 1);
    if (!done && body.ends_with(',')) body.remove_suffix(1);
    TraceEvent event = TraceEvent::parse(body, nullptr, false);
    if (!event.is_object())
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' line {} is not an event", path, line));
    if (!done) return event;
    about = std::move(event);
    return TraceEvent();
  }
};

class TraceMerger {
 public:
  explicit TraceMerger(TraceFile& output) : output_(output), arrows_(output) {}
  void take(Input& from, TraceEvent event);

 private:
  void renumber(Input& from, TraceEvent& event, const char* key);
  void find_arrival(const TraceEvent& event);

  TraceFile& output_;
  Arrows arrows_;
  TraceNumbers numbers_;
};

void TraceMerger::renumber(Input& from, TraceEvent& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number_unsigned()) return;
  const auto [entry, is_new] = from.numbers.try_emplace(found->get<std::uint32_t>());
  if (is_new) entry->second = numbers_.next();
  *found = entry->second;
}

void TraceMerger::take(Input& from, TraceEvent event) {
  renumber(from, event, "pid");
  renumber(from, event, "tid");
  if (const auto time = event.find("ts"); time != event.end() && time->is_number()) from.time = time->get<double>();
  const std::string category = event.value("cat", "");
  if (category == "arrow") return;  // they are drawn anew
  output_.write(event);
  if (category == "operation") find_arrival(event);
}

void TraceMerger::find_arrival(const TraceEvent& event) {
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object() || arguments->contains("unfinished") ||
      arguments->contains("peer"))
    return;
  OperationArrival arrival;
  try {
    arrival.communicator = std::stoull(arguments->at("communicator").get<std::string>(), nullptr, 16);
    arrival.number = arguments->at("number").get<std::uint32_t>();
    arrival.ranks = arguments->at("ranks").get<int>();
    arrival.rank = arguments->at("rank").get<int>();
    arrival.pid = event.at("pid").get<std::uint32_t>();
    arrival.tid = event.at("tid").get<std::uint32_t>();
    arrival.entered = trace_nanoseconds(event.at("ts").get<double>());
    arrival.met = arrival.entered + trace_nanoseconds(arguments->at("waited_us").get<double>());
    arrival.done = arrival.entered + trace_nanoseconds(event.at("dur").get<double>());
  } catch (const std::exception&) {
    return;  // of another version: it is drawn without an arrow
  }
  arrows_.add(arrival);
}

}  // namespace

Result<TraceEvent> merge_traces(const std::vector<std::string>& paths, TraceFile& output) {
  std::vector<Input> inputs;
  for (const std::string& path : paths) {
    Result<Input> input = Input::open(path);
    if (!input) return tl::unexpected(input.error());
    inputs.push_back(std::move(*input));
  }
  TraceMerger merger(output);
  // All go on at the same pace, so that the ranks of an operation are found near each other.
  const auto is_behind = [](const Input& a, const Input& b) { return a.done != b.done ? b.done : a.time < b.time; };
  while (true) {
    const auto behind = std::min_element(inputs.begin(), inputs.end(), is_behind);
    if (behind == inputs.end() || behind->done) break;
    Result<TraceEvent> event = behind->next();
    if (!event) return tl::unexpected(event.error());
    if (!behind->done) merger.take(*behind, std::move(*event));
  }
  TraceEvent parts = TraceEvent::object();
  for (Input& input : inputs) parts[input.path] = std::move(input.about);
  return TraceEvent{{"made_by", "tutti trace --merge"}, {"parts", std::move(parts)}};
}

}  // namespace tutti::monitor
