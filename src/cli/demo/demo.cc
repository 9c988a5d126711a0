#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/clock.hpp"
#include "cli/demo/demo_diagnosis.hpp"
#include "cli/demo/demo_rails.hpp"
#include "cli/demo/demo_scenes.hpp"
#include "cli/demo/demo_synthesis.hpp"
#include "cli/demo/disturbance.hpp"
#include "cli/demo/rails.hpp"
#include "cli/support/command.hpp"
#include "cli/support/launch.hpp"
#include "cli/support/parse.hpp"
#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

constexpr int kTakes = 5;    // rounds of timed calls; the middle one is shown
constexpr int kInARow = 10;  // calls of a round, one after the other: alone, each would wait for ranks to wake

struct SceneResult {
  double microseconds = 0.0;  // of the slowest rank
  std::int64_t wrong = 0;     // elements, over all ranks
};

Result<SceneResult> perform(const Scene& scene, SceneBuffers& buffers) {
  std::vector<double> times;
  for (int take = 0; take < kTakes; ++take) {
    buffers.reset();
    if (auto met = buffers.communicator.barrier(); !met) return tl::unexpected(met.error());
    const std::uint64_t start = ticks();
    for (int call = 0; call < kInARow; ++call)
      if (auto played = scene.play(buffers); !played) return tl::unexpected(played.error());
    times.push_back(microseconds_since(start) / kInARow);
  }
  std::nth_element(times.begin(), times.begin() + kTakes / 2, times.end());
  SceneResult outcome;
  outcome.microseconds = times[kTakes / 2];
  for (std::size_t i = 0; scene.received && i < scene.received(buffers); ++i)
    if (buffers.recv[i] != scene.expected(buffers, i)) ++outcome.wrong;
  auto agreed = buffers.communicator.all_reduce(&outcome.microseconds, &outcome.microseconds, 1, DataType::float64,
                                                Operator::max);
  if (agreed)
    agreed = buffers.communicator.all_reduce(&outcome.wrong, &outcome.wrong, 1, DataType::int64, Operator::sum);
  if (!agreed) return tl::unexpected(agreed.error());
  return outcome;
}

/// What rank 0 shows: a line that says what is being played, replaced by the row when it is done.
class Playbill {
 public:
  Playbill(bool speaks, std::size_t scenes)
      : speaks_(speaks), color_(wants_color(STDOUT_FILENO)), live_(::isatty(STDOUT_FILENO) == 1), scenes_(scenes) {}

  void open(const SceneBuffers& buffers) const {
    if (!speaks_) return;
    fmt::print("{} ranks on {} host{}, {} a buffer, float32; every result is compared with a plain computation\n\n",
               buffers.ranks, buffers.communicator.layout().hosts, buffers.communicator.layout().hosts == 1 ? "" : "s",
               show_bytes(buffers.count * sizeof(float)));
    fmt::print("{}\n", paint(fmt::format("{:<18} {:>9} {:>11} {:>9}", "collective", "size", "time", "GB/s"),
                             Color::bold, color_));
  }

  void announce(const std::string& name) {
    ++playing_;
    if (speaks_ && live_) fmt::print("[{}/{}] {} ...", playing_, scenes_, name);
    std::fflush(stdout);
  }

  void show(const Scene& scene, std::size_t bytes, const SceneResult& outcome) const {
    if (!speaks_) return;
    if (live_) fmt::print("\r\x1b[K");
    const bool moves = static_cast<bool>(scene.received);
    const std::string rate =
        moves ? fmt::format("{:.2f}", static_cast<double>(bytes) / 1e3 / outcome.microseconds) : "";
    const std::string verdict = outcome.wrong == 0
                                    ? paint(moves ? "verified ✓" : "done ✓", Color::green, color_)
                                    : paint(fmt::format("{} elements WRONG", outcome.wrong), Color::red, color_);
    fmt::print("{:<18} {:>9} {:>8.1f} us {:>9}  {}\n", scene.name, moves ? show_bytes(bytes) : "", outcome.microseconds,
               rate, verdict);
    std::fflush(stdout);
  }

 private:
  bool speaks_;
  bool color_;
  bool live_;
  std::size_t scenes_;
  int playing_ = 0;
};

int play_all(Communicator& communicator, std::size_t bytes) {
  SceneBuffers buffers(communicator, bytes / sizeof(float));
  const auto scenes = demo_scenes();
  Playbill playbill(communicator.rank() == 0, scenes.size());
  playbill.open(buffers);
  int status = 0;
  for (const Scene& scene : scenes) {
    playbill.announce(scene.name);
    const auto outcome = perform(scene, buffers);
    if (!outcome) {
      fmt::print(stderr, "\ntutti demo: {}: {}\n", scene.name, outcome.error().to_string());
      return 1;
    }
    playbill.show(scene, buffers.count * sizeof(float), *outcome);
    if (outcome->wrong != 0) status = 1;
  }
  return status;
}

int run_as_rank(std::size_t bytes) {
  Options options = Options::from_environment();
  if (options.timeout == 0.0) options.timeout = 30.0;
  auto communicator = Communicator::create_from_environment(options);
  if (!communicator) return report_error("demo", communicator.error().to_string());
  return play_all(*communicator, bytes);
}

struct DemoOptions {
  int ranks = 4;
  std::string size = "1M";
  std::string scene = "all";
  double seconds = 6.0;
  bool simulated = false;
  double rails_rank = 0.0;
  double stream_rank = 0.0;
  double training_rank = 0.0;
};

int run_demo(const DemoOptions& options, std::size_t bytes, const Arguments& arguments) {
  if (options.rails_rank > 0) return run_rails_rank(options.rails_rank);
  if (options.stream_rank > 0) return run_stream_rank(options.stream_rank);
  if (options.training_rank > 0) return run_training_rank(options.training_rank);
  if (started_by_launcher()) return run_as_rank(bytes);
  int status = 0;
  const auto plays = [&](const char* scene) {
    return status == 0 && (options.scene == scene || options.scene == "all");
  };
  if (plays("collectives")) status = launch_self("tutti demo", options.ranks, arguments);
  if (plays("all")) fmt::print("\n");
  if (plays("rails")) status = play_rails(options.seconds, options.simulated);
  if (plays("all")) fmt::print("\n");
  if (plays("disturbance")) status = play_disturbance(options.simulated);
  if (plays("all")) fmt::print("\n");
  if (plays("diagnosis")) status = play_diagnosis(options.simulated);
  if (plays("all")) fmt::print("\n");
  if (plays("synthesis")) status = play_synthesis();
  return status;
}

}  // namespace

void add_demo(CLI::App& app, const Arguments& arguments, int& status) {
  auto* command = app.add_subcommand("demo",
                                     "Run every collective on four ranks of this machine and verify the results; then "
                                     "let a network port fail, and slow down; stop a rank and see it named; then make "
                                     "a program for a topology");
  auto options = std::make_shared<DemoOptions>();
  command->add_option("-N,--ranks", options->ranks, "processes to start")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("-s,--size", options->size, "bytes of a buffer (K, M, G)")->capture_default_str();
  command
      ->add_option(
          "--scene", options->scene,
          "collectives; rails: one of two fails under an all-reduce; disturbance: one is slow, and what the "
          "monitor sees; diagnosis: a rank is stopped, then a rail slowed, and both are named; synthesis: a program "
          "is made for a topology, and run; all")
      ->check(CLI::IsMember({"collectives", "rails", "disturbance", "diagnosis", "synthesis", "all"}))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "length of the scene with the rails")
      ->check(CLI::Range(1.0, 600.0))
      ->capture_default_str();
  command->add_flag("--simulated", options->simulated, "rails in a simulation, as where there is no root");
  command->add_option("--rails-rank", options->rails_rank)->group("");  // what scenes with rails start
  command->add_option("--stream-rank", options->stream_rank)->group("");
  command->add_option("--training-rank", options->training_rank)->group("");
  command->footer("Examples:\n  tutti demo\n  tutti demo -N 2 -s 64K\n  sudo tutti demo --scene rails");
  command->callback([options, arguments, &status] {
    const auto bytes = parse_bytes(options->size);
    if (!bytes) throw CLI::ValidationError("--size", bytes.error().message);
    status = run_demo(*options, *bytes, arguments);
  });
}

}  // namespace tutti::cli
