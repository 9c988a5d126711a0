#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/settings.hpp"
#include "cli/monitor/collector_client.hpp"
#include "cli/monitor/diagnose_view.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"
#include "cli/support/terminal.hpp"
#include "diagnosis/gpu/gpu_observer.hpp"
#include "diagnosis/recordings/process_load.hpp"
#include "diagnosis/recordings/recording_observer.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"
#include "gpu_health/gpu_watch.hpp"

namespace tutti::cli {
namespace {

using diagnosis::Telemetry;

constexpr double kBetweenLooks = 0.3;  // seconds, in which whatever moves does so

struct DiagnoseFlags {
  bool json = false;
  double watch = 0;  // seconds between looks; 0: once
  std::string folder, record, replay;
  CollectorFlags collector;
};

/// Writes telemetry as it is judged. Without a path, nothing.
class TelemetryFile {
 public:
  Status open(const std::string& path) {
    if (path.empty()) return {};
    file_.open(path, std::ios::app);
    path_ = path;
    return written();
  }
  Status write(const std::vector<Telemetry>& jobs) {
    if (path_.empty()) return {};
    for (const Telemetry& job : jobs) file_ << diagnosis::line_of(job) << '\n';
    file_.flush();
    return written();
  }

 private:
  Status written() const {
    if (file_) return {};
    return fail(ErrorCode::system, fmt::format("{} cannot be written", path_));
  }

  std::string path_;
  std::ofstream file_;
};

/// Looks at the recordings of this host and, where there are any, at its GPUs, again and again.
class LiveTelemetry {
 public:
  explicit LiveTelemetry(const std::string& folder)
      : folders_(folder.empty() ? monitor::recording_folders() : std::vector<std::string>{folder}) {}

  std::vector<Telemetry> look() {
    const monitor::Snapshot snapshot = take_snapshot(folders_, diagnosis::RecordingObserver::detail());
    problems_ = snapshot.problems;
    std::vector<Telemetry> jobs = observer_.observe(snapshot, diagnosis::read_starvation(snapshot));
    if (!jobs.empty()) add_gpus(snapshot.now, jobs);
    return jobs;
  }
  const std::vector<std::string>& folders() const { return folders_; }
  const std::vector<std::string>& problems() const { return problems_; }
  /// Why GPUs cannot be read, if that is new.
  std::string take_gpu_problem() { return std::exchange(new_gpu_problem_, ""); }

 private:
  void add_gpus(double now, std::vector<Telemetry>& jobs) {
    const gpu::GpuLook look = gpus_.look();
    gpu_observer_.observe(look, now, jobs);
    if (!look.problem.empty()) problems_.push_back(look.problem);
    if (look.problem != gpu_problem_) new_gpu_problem_ = gpu_problem_ = look.problem;
  }

  std::vector<std::string> folders_, problems_;
  std::string gpu_problem_, new_gpu_problem_;
  diagnosis::RecordingObserver observer_;
  gpu::GpuWatch gpus_{settings().nvml};
  diagnosis::GpuObserver gpu_observer_;
};

/// Whether something is wrong.
bool print(const std::vector<JudgedJob>& jobs, const std::vector<std::string>& problems, const DiagnoseFlags& flags) {
  if (flags.json) {
    fmt::print("{}\n", verdicts_json(jobs, problems).dump(2));
  } else {
    fmt::print("{}", verdicts_text(jobs, wants_color(STDOUT_FILENO)));
    for (const std::string& problem : problems) fmt::print(stderr, "warning: {}\n", problem);
  }
  return std::any_of(jobs.begin(), jobs.end(), [](const JudgedJob& job) { return !job.verdicts.empty(); });
}

/// Prints what is new and what is over, look after look.
class ChangePrinter {
 public:
  explicit ChangePrinter(bool json) : json_(json), color_(!json && wants_color(STDOUT_FILENO)) {}

  void look(std::vector<Telemetry> seen) {
    watch_.look(std::move(seen), [&](const JudgedJob& job, const diagnosis::VerdictChange& change) {
      told_ = true;
      fmt::print("{}\n", json_ ? json_of(change, job.telemetry).dump() : change_text(job, change, color_));
    });
    std::fflush(stdout);
  }
  /// Whether anything was told.
  bool has_told() const { return told_; }

 private:
  bool json_, color_, told_ = false;
  diagnosis::JobWatch watch_;
};

int look_once(const DiagnoseFlags& flags, TelemetryFile& record) {
  LiveTelemetry live(flags.folder);
  Interrupts interrupts;
  live.look();
  if (!interrupts.sleep(kBetweenLooks)) return interrupts.exit_status();
  std::vector<Telemetry> seen = live.look();
  if (const Status written = record.write(seen); !written)
    return report_error("diagnose", written.error().message, kBadUsage);
  const std::vector<JudgedJob> jobs = diagnosis::judge(std::move(seen));
  if (jobs.empty() && !flags.json)
    fmt::print("no recordings in {}: no process of yours uses tutti now, or TUTTI_MONITOR=0 is set for it\n",
               fmt::join(live.folders(), ", "));
  return print(jobs, live.problems(), flags) ? 1 : 0;
}

int watch_live(const DiagnoseFlags& flags, TelemetryFile& record) {
  LiveTelemetry live(flags.folder);
  Interrupts interrupts;
  ChangePrinter printer(flags.json);
  while (true) {
    std::vector<Telemetry> seen = live.look();
    if (const Status written = record.write(seen); !written)
      return report_error("diagnose", written.error().message, kBadUsage);
    if (const std::string problem = live.take_gpu_problem(); !problem.empty())
      fmt::print(stderr, "warning: {}\n", problem);
    printer.look(std::move(seen));
    if (!interrupts.sleep(flags.watch)) return interrupts.exit_status();
  }
}

constexpr double kAnswerWithin = 10;  // seconds, of a collector

/// Asks a collector once.
int look_at_cluster(const DiagnoseFlags& flags, TelemetryFile& record) {
  auto client = CollectorClient::open(flags.collector);
  if (!client) return report_error("diagnose", client.error().message, kBadUsage);
  auto answer = (*client)->ask(Deadline::in(kAnswerWithin));
  if (!answer) return report_error("diagnose", answer.error().message, kBadUsage);
  if (const Status written = record.write(answer->jobs); !written)
    return report_error("diagnose", written.error().message, kBadUsage);
  const std::vector<JudgedJob> jobs = diagnosis::judge(std::move(answer->jobs));
  if (jobs.empty() && !flags.json)
    fmt::print("the collector {} knows of no job; agents: {}\n", flags.collector.collector, answer->hosts.size());
  return print(jobs, {}, flags) ? 1 : 0;
}

/// Asks a collector again and again. Where it does not answer, says so once, and goes on once it does.
int watch_cluster(const DiagnoseFlags& flags, TelemetryFile& record) {
  auto client = CollectorClient::open(flags.collector);
  if (!client) return report_error("diagnose", client.error().message, kBadUsage);
  Interrupts interrupts;
  ChangePrinter printer(flags.json);
  bool answered = true;
  while (true) {
    auto answer = (*client)->ask(Deadline::in(kAnswerWithin));
    if (!answer && answered) fmt::print(stderr, "tutti diagnose: {}; trying again\n", answer.error().message);
    answered = answer.has_value();
    if (answer) {
      if (const Status written = record.write(answer->jobs); !written)
        return report_error("diagnose", written.error().message, kBadUsage);
      printer.look(std::move(answer->jobs));
    }
    if (!interrupts.sleep(flags.watch)) return interrupts.exit_status();
  }
}

/// Calls `take` with all telemetry of one look after another: what has the same moment is of the same look.
template <typename Take>
Status read_looks(const std::string& path, const Take& take) {
  std::ifstream file(path);
  std::vector<Telemetry> look;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    Result<Telemetry> telemetry = diagnosis::parse_telemetry(line);
    if (!telemetry)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}, moment {}: {}", path, number, telemetry.error().message));
    if (!look.empty() && look.back().now != telemetry->now) {
      take(std::move(look));
      look.clear();
    }
    look.push_back(*std::move(telemetry));
  }
  if (look.empty()) return fail(ErrorCode::invalid_argument, path + " holds no telemetry");
  take(std::move(look));
  return {};
}

int replay(const DiagnoseFlags& flags) {
  ChangePrinter printer(flags.json);
  std::vector<Telemetry> last;
  const Status read = read_looks(flags.replay, [&](std::vector<Telemetry> look) {
    if (flags.watch > 0)
      printer.look(std::move(look));
    else
      last = std::move(look);
  });
  if (!read) return report_error("diagnose", read.error().message, kBadUsage);
  if (flags.watch > 0) return printer.has_told() ? 1 : 0;
  return print(diagnosis::judge(std::move(last)), {}, flags) ? 1 : 0;
}

int run_diagnose(const DiagnoseFlags& flags) {
  if (!flags.replay.empty()) return replay(flags);
  TelemetryFile record;
  if (const Status opened = record.open(flags.record); !opened)
    return report_error("diagnose", opened.error().message, kBadUsage);
  if (!flags.collector.collector.empty())
    return flags.watch > 0 ? watch_cluster(flags, record) : look_at_cluster(flags, record);
  return flags.watch > 0 ? watch_live(flags, record) : look_once(flags, record);
}

}  // namespace

void add_diagnose(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "diagnose", "Who is at fault when jobs of this host, or those a collector knows, hang, die or are slow");
  auto flags = std::make_shared<DiagnoseFlags>();
  command->add_flag("--json", flags->json, "as JSON (docs/diagnosis.md); with --watch an object a line");
  command
      ->add_option("--watch", flags->watch, "look every SECONDS (1 where none are given), print what is new and over")
      ->expected(0, 1)
      ->default_str("1")
      ->check(CLI::Range(0.05, 3600.0))
      ->option_text("[SECONDS]");
  auto* const folder =
      command->add_option("--dir", flags->folder, "folder of recordings, instead of this user's (root: of all users)")
          ->option_text("FOLDER");
  auto* const record =
      command
          ->add_option("--record", flags->record, "append what was judged to FILE, a JSON line for each job and look")
          ->option_text("FILE");
  command->add_option("--replay", flags->replay, "judge what --record wrote, instead of recordings")
      ->option_text("FILE")
      ->check(CLI::ExistingFile)
      ->excludes(folder)
      ->excludes(record);
  add_collector_flags(*command, flags->collector);
  command->get_option("--collector")->excludes(folder)->excludes(command->get_option("--replay"));
  command->footer(
      "Examples:\n  tutti diagnose\n  tutti diagnose --watch --record incident.jsonl\n"
      "  tutti diagnose --replay incident.jsonl --json | jq '.jobs[].verdicts[].text'\n\n"
      "Jobs that died are judged, too, until the next process of their user starts.\n"
      "Exit status 1 when there are verdicts, 0 when nothing is wrong, 2 for a mistake of the caller.");
  command->callback([flags, &status] { status = run_diagnose(*flags); });
}

}  // namespace tutti::cli
