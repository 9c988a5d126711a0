// Holds a trace against the rules of the format as Perfetto's importer reads it, for tests: a list of what is wrong.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::monitor {

class TraceChecker {
 public:
  explicit TraceChecker(const std::string& path) {
    std::ifstream file(path);
    document_ = nlohmann::json::parse(file, nullptr, false);
    if (!document_.is_object() || !document_.contains("traceEvents")) {
      complain("it is no trace");
      return;
    }
    for (const auto& event : events()) read(event);
    check_nesting();
    check_names();
    check_flows();
  }

  const std::vector<std::string>& wrong() const { return wrong_; }
  const nlohmann::json& document() const { return document_; }
  const nlohmann::json& events() const { return document_["traceEvents"]; }
  /// Those of a phase and, where given, a name.
  std::vector<nlohmann::json> find(const std::string& phase, const std::string& name = "") const {
    std::vector<nlohmann::json> found;
    for (const auto& event : events())
      if (event["ph"] == phase && (name.empty() || event["name"] == name)) found.push_back(event);
    return found;
  }
  /// The name of a thread of the trace.
  std::string thread(const nlohmann::json& event) const {
    const auto found = threads_.find(event["tid"].get<int>());
    return found == threads_.end() ? "" : found->second;
  }
  std::string process(const nlohmann::json& event) const {
    const auto found = processes_.find(event["pid"].get<int>());
    return found == processes_.end() ? "" : found->second;
  }

 private:
  struct Slice {
    std::int64_t from, to;
    std::string name;
  };
  struct FlowEnd {
    int tid;
    std::int64_t at;
  };

  void complain(std::string what) {
    if (wrong_.size() < 20) wrong_.push_back(std::move(what));
  }
  /// As the importer has it: what is less than a nanosecond is cut off.
  static std::int64_t nanoseconds(const nlohmann::json& value) {
    return static_cast<std::int64_t>(value.get<double>() * 1000.0);
  }
  static bool is_number(const nlohmann::json& event, const char* key) {
    return event.contains(key) && event[key].is_number();
  }

  void read(const nlohmann::json& event) {
    const std::string phase = event.value("ph", "");
    if (!event.contains("name") || !is_number(event, "pid")) return complain("nameless: " + event.dump());
    if (phase == "M") return read_name(event);
    if (!is_number(event, "ts") || event["ts"] < 0) return complain("without a time: " + event.dump());
    if (phase == "C") return read_counter(event);
    if (!is_number(event, "tid")) return complain("without a thread: " + event.dump());
    const int tid = event["tid"];
    const int pid = event["pid"];
    if (owners_.try_emplace(tid, pid).first->second != pid || tid == pid)
      complain(fmt::format("thread {} is not of one process alone", tid));
    const std::int64_t at = nanoseconds(event["ts"]);
    if (phase == "X") {
      if (!is_number(event, "dur") || event["dur"] < 0) return complain("without a duration: " + event.dump());
      slices_[tid].push_back({at, at + nanoseconds(event["dur"]), event["name"]});
    } else if (phase == "i") {
      if (event.value("s", "") != "t") complain("an instant without a scope: " + event.dump());
    } else if (phase == "s" || phase == "f") {
      (phase == "s" ? starts_ : ends_)[event["id"].get<std::uint64_t>()].push_back({tid, at});
    } else {
      complain("of a phase that tutti does not write: " + event.dump());
    }
  }

  void read_name(const nlohmann::json& event) {
    if (event["name"] == "process_name") processes_[event["pid"].get<int>()] = event["args"]["name"];
    if (event["name"] == "thread_name") threads_[event["tid"].get<int>()] = event["args"]["name"];
  }

  void read_counter(const nlohmann::json& event) {
    if (!event.contains("args") || event["args"].empty()) return complain("a counter of nothing: " + event.dump());
    for (const auto& value : event["args"])
      if (!value.is_number()) complain("a counter that is no number: " + event.dump());
  }

  /// Slices of a thread lie within each other, or apart.
  void check_nesting() {
    for (auto& [tid, slices] : slices_) {
      std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.from < b.from; });
      std::vector<const Slice*> open;
      for (const Slice& slice : slices) {
        while (!open.empty() && open.back()->to <= slice.from && slice.to > open.back()->to) open.pop_back();
        while (!open.empty() && open.back()->to < slice.from) open.pop_back();
        if (!open.empty() && slice.to > open.back()->to)
          complain(fmt::format("thread {}: {} [{}, {}] reaches out of {} [{}, {}]", tid, slice.name, slice.from,
                               slice.to, open.back()->name, open.back()->from, open.back()->to));
        open.push_back(&slice);
      }
    }
  }

  void check_names() {
    for (const auto& [tid, pid] : owners_) {
      if (!threads_.contains(tid)) complain(fmt::format("thread {} has no name", tid));
      if (!processes_.contains(pid)) complain(fmt::format("process {} has no name", pid));
    }
  }

  /// Every arrow has two ends, each in a slice, and goes on in time.
  void check_flows() {
    for (const auto& [id, ends] : ends_)
      if (!starts_.contains(id)) complain(fmt::format("arrow {} has no beginning", id));
    for (const auto& [id, starts] : starts_) {
      const auto found = ends_.find(id);
      if (found == ends_.end() || found->second.size() != 1 || starts.size() != 1) {
        complain(fmt::format("arrow {} has not two ends", id));
        continue;
      }
      const FlowEnd& end = found->second.front();
      if (end.at < starts.front().at) complain(fmt::format("arrow {} goes back in time", id));
      for (const FlowEnd& each : {starts.front(), end}) {
        const auto& slices = slices_[each.tid];
        const auto covers = [&](const Slice& slice) { return slice.from <= each.at && each.at <= slice.to; };
        if (std::none_of(slices.begin(), slices.end(), covers)) complain(fmt::format("arrow {} ends nowhere", id));
      }
    }
  }

  nlohmann::json document_;
  std::vector<std::string> wrong_;
  std::map<int, std::vector<Slice>> slices_;
  std::map<int, int> owners_;
  std::map<int, std::string> processes_, threads_;
  std::map<std::uint64_t, std::vector<FlowEnd>> starts_, ends_;
};

}  // namespace tutti::monitor
