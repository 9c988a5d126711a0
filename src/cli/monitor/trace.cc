#include "monitor/trace/trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/clock.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"
#include "monitor/trace/trace_merge.hpp"
#include "monitor/trace/trace_pace.hpp"

namespace tutti::cli {
namespace {

using monitor::Detail;
using monitor::Snapshot;
using monitor::TraceCounts;
using monitor::TraceFile;
using monitor::Tracer;

struct TraceOptions {
  std::string output;
  double seconds = 0;
  std::vector<std::string> folders;
  std::vector<std::string> merged;
};

/// How far the time is, on a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(double seconds) : seconds_(seconds), shown_(::isatty(STDERR_FILENO) == 1) {}
  ~ProgressBar() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(double left, const Tracer& tracer) {
    if (!shown_ || drawn_ - left < 0.1) return;
    drawn_ = left;
    const double share = std::clamp(1 - left / seconds_, 0.0, 1.0);
    const auto full = static_cast<std::size_t>(share * kWidth);
    fmt::print(stderr, "\r\x1b[K[{}{}] {:.0f} of {:g} s, {} operations", std::string(full, '#'),
               std::string(kWidth - full, '.'), seconds_ - left, seconds_, tracer.written().operations);
    std::fflush(stderr);
  }

 private:
  static constexpr std::size_t kWidth = 30;

  double seconds_;
  bool shown_;
  double drawn_ = 1e9;
};

/// Reads the rings until time is up, or Ctrl-C ends it early. The last snapshot.
Snapshot follow(Tracer& tracer, const TraceOptions& options) {
  Interrupts interrupts;
  ProgressBar bar(options.seconds);
  monitor::TracePace pace;
  const Deadline deadline = Deadline::in(options.seconds);
  while (!deadline.passed()) {
    tracer.add(take_snapshot(options.folders, Detail::all()));
    pace.take(tracer.fill());
    bar.show(deadline.seconds_left(), tracer);
    if (!interrupts.sleep(std::min(pace.seconds(), deadline.seconds_left()))) break;
  }
  return take_snapshot(options.folders, Detail::all());
}

std::string describe(const TraceCounts& counts) {
  return fmt::format("{} operations, {} steps, {} chunks and {} events", counts.operations, counts.steps, counts.chunks,
                     counts.events);
}

void report(const Tracer& tracer, const std::string& output) {
  fmt::print("{}: {} of {} rank{}\n", output, describe(tracer.written()), tracer.ranks(),
             tracer.ranks() == 1 ? "" : "s");
  const TraceCounts& missed = tracer.missed();
  if (missed.operations + missed.steps + missed.chunks + missed.events > 0)
    fmt::print("missed, because they were overwritten before they were read: {}\n", describe(missed));
  for (const std::string& who : tracer.unsure())
    fmt::print(stderr, "warning: the clock of {} is not known to agree with that of the job's first process\n", who);
  fmt::print("open it at https://ui.perfetto.dev\n");
}

int trace(TraceOptions options) {
  if (options.folders.empty()) options.folders = monitor::recording_folders();
  Snapshot first = take_snapshot(options.folders, Detail::all());
  for (const std::string& problem : first.problems) fmt::print(stderr, "warning: {}\n", problem);
  if (first.processes.empty() && options.seconds <= 0)
    return report_error("trace", fmt::format("no recordings in {}; `tutti env` tells whether TUTTI_MONITOR is on",
                                             fmt::join(options.folders, ", ")));
  auto file = TraceFile::create(options.output);
  if (!file) return report_error("trace", file.error().message);
  Tracer tracer(**file);
  const Snapshot last = options.seconds > 0 ? follow(tracer, options) : std::move(first);
  tracer.add(last);
  tracer.finish(last);
  if (const Status closed = (*file)->close(tracer.about()); !closed)
    return report_error("trace", closed.error().message);
  report(tracer, options.output);
  return 0;
}

int merge(const TraceOptions& options) {
  if (std::find(options.merged.begin(), options.merged.end(), options.output) != options.merged.end())
    return report_error("trace", fmt::format("'{}' cannot be read and written at once", options.output));
  auto file = TraceFile::create(options.output);
  if (!file) return report_error("trace", file.error().message);
  const auto about = monitor::merge_traces(options.merged, **file);
  if (!about) return report_error("trace", about.error().message);
  if (const Status closed = (*file)->close(*about); !closed) return report_error("trace", closed.error().message);
  fmt::print("{}: {} traces as one\n", options.output, options.merged.size());
  return 0;
}

}  // namespace

void add_trace(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("trace", "Write what ranks did as a trace that the Perfetto UI opens");
  auto options = std::make_shared<TraceOptions>();
  command->add_option("-o,--output", options->output, "FILE.json")->required();
  auto* seconds = command->add_option("--seconds", options->seconds, "follow what happens for so long")
                      ->check(CLI::Range(0.001, 86400.0));
  auto* folders = command->add_option("--dir", options->folders, "folder of recordings; may be given again")
                      ->allow_extra_args(false);
  command->add_option("--merge", options->merged, "make one of these traces, of several hosts")
      ->check(CLI::ExistingFile)
      ->excludes(seconds)
      ->excludes(folders);
  command->footer(
      "Examples:\n  tutti trace -o now.json\n  tutti trace -o job.json --seconds 10\n"
      "  tutti trace --merge host1.json host2.json -o job.json\n\n"
      "Without --seconds: the last operations that recordings hold, also of ranks that hang or were killed.\n"
      "Exit status 1 when there is nothing to trace, or the file cannot be written.");
  command->callback([options, &status] { status = options->merged.empty() ? trace(*options) : merge(*options); });
}

}  // namespace tutti::cli
