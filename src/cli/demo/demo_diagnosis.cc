#include "cli/demo/demo_diagnosis.hpp"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "cli/demo/namespace_rails.hpp"
#include "cli/demo/tmpfs_folder.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"
#include "cli/support/launch.hpp"
#include "cli/support/spawn.hpp"
#include "cli/support/terminal.hpp"
#include "diagnosis/diagnose.hpp"
#include "diagnosis/recordings/process_load.hpp"
#include "diagnosis/recordings/recording_observer.hpp"
#include "diagnosis/verdict_watch.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::cli {
namespace {

using diagnosis::VerdictChange;

constexpr int kRanks = 4;
constexpr std::size_t kStopped = 2;  // the rank
constexpr int kSlow = 1;             // the rail
constexpr double kShare = 0.3;       // of its rate
constexpr double kLook = 0.1;        // seconds between looks
constexpr double kWorks = 2.0;       // seconds in which the rhythm of the job is learned
constexpr double kStays = 1.0;       // seconds for which a fault goes on after it was named
constexpr double kPatience = 10.0;   // seconds to wait for a verdict
constexpr double kLongest = 60.0;    // that ranks run

using Pause = std::function<Status(double seconds)>;

/// Looks at the recordings of a folder, and prints what is new and what is over. `pause`: what happens between looks.
class DiagnosisScene {
 public:
  DiagnosisScene(std::string folder, Pause pause)
      : folder_(std::move(folder)), pause_(std::move(pause)), color_(wants_color(STDOUT_FILENO)) {}

  void say(const std::string& text) const {
    fmt::print("{:>6.1f} s  {}\n", elapsed(), text);
    std::fflush(stdout);
  }

  /// Looks until `enough` says so of what has changed, or the time is over: then it returns false.
  Result<bool> watch(double seconds, const std::function<bool(const VerdictChange&)>& enough) {
    const Deadline late = Deadline::in(seconds);
    while (!late.passed()) {
      bool is_enough = false;
      for (const VerdictChange& change : look()) is_enough = enough(change) || is_enough;
      if (is_enough) return true;
      if (Status paused = pause_(kLook); !paused) return tl::unexpected(paused.error());
    }
    return false;
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  std::vector<VerdictChange> look() {
    const monitor::Snapshot snapshot = take_snapshot({folder_}, diagnosis::RecordingObserver::detail());
    std::vector<VerdictChange> changes;
    for (const auto& telemetry : observer_.observe(snapshot, diagnosis::read_starvation(snapshot)))
      for (VerdictChange& change : watch_.update(telemetry, diagnose(telemetry))) {
        show(change);
        changes.push_back(std::move(change));
      }
    return changes;
  }

  void show(const VerdictChange& change) const {
    const auto name = std::string(name_of(change.verdict.fault));
    if (change.began)
      say(fmt::format("{}: {} ({:.0f} % sure)", paint(name, Color::red, color_), change.verdict.text,
                      100 * change.verdict.confidence));
    else
      say(fmt::format("{}: {}, after {}", paint("over", Color::green, color_), name,
                      diagnosis::lasting(change.lasted)));
  }

  std::string folder_;
  Pause pause_;
  bool color_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  diagnosis::RecordingObserver observer_;
  diagnosis::VerdictWatch watch_;
};

/// Ranks of a training-like loop on this host. They end with the object.
class TrainingJob {
 public:
  ~TrainingJob() {
    for (RankProcess& rank : ranks_) {
      rank.signal(SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
    }
  }

  Status start(const std::string& folder) {
    auto job = JobDescription::create(kRanks);
    if (!job) return tl::unexpected(job.error());
    for (int number = 0; number < kRanks; ++number) {
      SpawnOptions options;
      options.command = {own_executable(), "demo", "--training-rank", fmt::format("{}", kLongest)};
      options.environment = {{"TUTTI_MONITOR_DIR", folder}, {"TUTTI_LOG", "error"}};
      auto rank = spawn(*job, number, options);
      if (!rank) return tl::unexpected(rank.error());
      ranks_.push_back(std::move(*rank));
    }
    return {};
  }

  int pid(std::size_t rank) const { return ranks_[rank].pid; }
  void signal(std::size_t rank, int number) const { ranks_[rank].signal(number); }

 private:
  std::vector<RankProcess> ranks_;
};

bool is_nothing(const VerdictChange&) { return false; }
bool is_new(const VerdictChange& change) { return change.began; }
bool is_over(const VerdictChange& change) { return !change.began; }

/// Returns whether the stopped rank was named, and nobody else.
Result<bool> stop_a_rank(const std::string& folder, Interrupts& interrupts) {
  TrainingJob job;
  if (Status started = job.start(folder); !started) return tl::unexpected(started.error());
  DiagnosisScene scene(folder, [&](double seconds) { return interrupts.sleep(seconds); });
  scene.say(fmt::format("{} ranks of this host compute for 20 ms and reduce, in a loop", kRanks));
  if (auto worked = scene.watch(kWorks, is_nothing); !worked) return worked;
  job.signal(kStopped, SIGSTOP);
  scene.say(fmt::format("rank {} gets SIGSTOP", kStopped));
  bool is_right = false;
  auto named = scene.watch(kPatience, [&](const VerdictChange& change) {
    is_right = change.verdict.fault == diagnosis::FaultClass::frozen && change.verdict.suspects.size() == 1 &&
               change.verdict.suspects.front().pid == job.pid(kStopped);
    return change.began;
  });
  if (!named) return named;
  if (auto stays = scene.watch(kStays, is_nothing); !stays) return stays;
  job.signal(kStopped, SIGCONT);
  scene.say("it gets SIGCONT");
  auto over = scene.watch(kPatience, is_over);
  if (!over) return over;
  return *named && is_right && *over;
}

Status slow_a_rail(const std::string& folder, Interrupts& interrupts) {
  NamespaceRailsOptions options;
  options.seconds = kLongest;
  options.environment = {{"TUTTI_MONITOR_DIR", folder}};
  auto opened = open_rails(options, interrupts);
  if (!opened) return tl::unexpected(opened.error());
  NamespaceRails& rails = **opened;
  fmt::print("\n{}\n\n", rails.title());
  DiagnosisScene scene(folder, [&](double seconds) { return rails.flow_until(rails.now() + seconds); });
  if (auto worked = scene.watch(kWorks, is_new); !worked) return tl::unexpected(worked.error());
  if (Status set = rails.set_share(kSlow, kShare); !set) return set;
  scene.say(fmt::format("rail{} of the first host is limited to {:.0f} % of its rate", kSlow, 100 * kShare));
  auto told = scene.watch(kPatience, is_new);
  if (!told) return tl::unexpected(told.error());
  if (!*told) scene.say("nothing was said of it");
  if (auto stays = scene.watch(kStays, is_nothing); !stays) return tl::unexpected(stays.error());
  if (Status set = rails.set_share(kSlow, 1); !set) return set;
  scene.say(fmt::format("rail{} is as before", kSlow));
  if (!*told) return {};
  if (auto over = scene.watch(kPatience, is_over); !over) return tl::unexpected(over.error());
  return {};
}

}  // namespace

int play_diagnosis(bool simulated) {
  Interrupts interrupts;
  const TmpfsFolder local, between;
  if (local.path().empty() || between.path().empty()) return report_error("demo", "no folder in /dev/shm");
  fmt::print("what goes wrong is named, as by `tutti diagnose --watch`\n\n");
  auto named = stop_a_rank(local.path(), interrupts);
  if (interrupts.exit_status() != 0) return interrupts.exit_status();
  if (!named) return report_error("demo", named.error().message);
  if (!simulated) {
    const Status slowed = slow_a_rail(between.path(), interrupts);
    if (interrupts.exit_status() != 0) return interrupts.exit_status();
    if (!slowed && slowed.error().code != ErrorCode::unsupported) return report_error("demo", slowed.error().message);
    if (!slowed) fmt::print("no rail is made slow here ({})\n", slowed.error().message);
  }
  return *named ? 0 : 1;
}

}  // namespace tutti::cli
