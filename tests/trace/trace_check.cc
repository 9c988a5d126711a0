// trace_check FILE [PHASE:PREFIX]...: the trace is well-formed, and has an event of each phase whose name begins so.
#include <fmt/core.h>

#include "monitor/trace/trace_checker_test_kit.hpp"

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const tutti::monitor::TraceChecker checked(arguments[1]);
  for (const std::string& each : checked.wrong()) fmt::print("{}: {}\n", arguments[1], each);
  bool complete = checked.wrong().empty();
  for (int i = 2; i < count; ++i) {
    const std::string wanted = arguments[i];
    const auto events = checked.find(wanted.substr(0, 1));
    const auto fits = [&](const auto& event) {
      return event["name"].template get<std::string>().starts_with(wanted.substr(2));
    };
    if (std::any_of(events.begin(), events.end(), fits)) continue;
    fmt::print("{}: has no {}\n", arguments[1], wanted);
    complete = false;
  }
  return complete ? 0 : 1;
}
