// One rank of a training-like job (steps.hpp) that bench/chaos.py disturbs. It creates its communicator as the launcher
// says, or joins one (--join). When a rank is lost, the survivors shrink, invite a newcomer, grow, agree on the step
// and go on. In --folder are files by which the script talks to all ranks: rank 0 looks for them and tells the others.
//   measure.N     be quiet, and write what this process holds
//   stop          end
//   invite.N      written by rank 0: the id for the Nth newcomer
// Lines of the journal (--journal):
//   begin RANK SIZE; left WHY (a newcomer that was not taken in); regrow WHY (the next attempt follows); step N; did
//   allocate|deallocate|split|abort; refused WHAT: WHY; lost CODE WHY; shrunk SIZE; whole N RECOVERIES; measured N
//   DESCRIPTORS THREADS MAPPINGS KILOBYTES; descriptors WHICH;
//   late WHAT SECONDS LIMIT; longest WHAT SECONDS LIMIT; violation WHY; end
//   STEPS
// Whether an error was justified (lost, refused) is the script's to judge: it knows what it did. Exits with 1 when a
// result is wrong or a call fails that must not.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "deadlines.hpp"
#include "journal.hpp"
#include "resources.hpp"
#include "steps.hpp"

namespace tutti::labs {
namespace {

constexpr double kShrinkSeconds = 20;
constexpr double kCreateSeconds = 30;
// A rank may hear of the end of a meeting only at its deadline. The others wait for it in an operation meanwhile.
constexpr double kGrowSeconds = 8;
constexpr double kEntrySeconds = 10;  // grow() and join() have so much more, once all have met
constexpr double kQuietSeconds = 7;   // after faults: what hung up unheard is given up after three seconds, or six
static_assert(kGrowSeconds + kEntrySeconds < Limits::kOperation);
constexpr double kSettleSeconds = 12;
constexpr int kAttempts = 5;    // at growing
constexpr int kNotTakenIn = 3;  // status of a newcomer

struct Arguments {
  std::uint64_t seed = 1;
  std::string folder;
  std::string journal;
  std::string join;  // a file that holds the id
  int wish = -1;
  int size = 0;
};

/// What rank 0 wants of all in the next step.
enum Wish : std::int32_t { go_on, measure, stop };

class Rank {
 public:
  explicit Rank(const Arguments& arguments)
      : arguments_(arguments),
        journal_(arguments.journal),
        deadlines_(journal_),
        steps_(arguments.seed, journal_, deadlines_) {
    options_.timeout = Limits::kOperation;
    options_.join_timeout = arguments.join.empty() ? kCreateSeconds : kGrowSeconds;
  }

  void run() {
    Result<Communicator> made = enter();
    if (!made && !arguments_.join.empty()) leave(made.error());
    if (!made) journal_.give_up("cannot create the communicator: " + made.error().to_string());
    journal_.write("begin", std::to_string(made->rank()) + " " + std::to_string(made->size()));
    Status done = begin(std::move(*made));
    if (!done && !arguments_.join.empty()) leave(done.error());
    for (bool more = true; more;) done = done ? one_step(more) : recover(done.error());
    drop(steps_.end());
    deadlines_.write_longest();
    journal_.write("end", std::to_string(step_));
  }

 private:
  Result<Communicator> enter() {
    if (arguments_.join.empty()) return Communicator::create_from_environment(options_);
    std::ifstream file(arguments_.join);
    std::string text;
    file >> text;
    const Result<UniqueId> id = UniqueId::from_string(text);
    if (!id) return tl::unexpected(id.error());
    return deadlines_.hold("join", kGrowSeconds + kEntrySeconds,
                           [&] { return Communicator::join(*id, arguments_.wish, options_); });
  }

  /// A newcomer that was not taken in: the others invite another.
  [[noreturn]] void leave(const Error& error) {
    journal_.write("left", error.to_string());
    std::_Exit(kNotTakenIn);
  }

  bool exists(const std::string& name) const {
    struct stat file {};
    return ::stat((arguments_.folder + "/" + name).c_str(), &file) == 0;
  }

  /// All ranks are there: agrees on the step, since survivors may be a step apart and a newcomer knows none.
  Status begin(Communicator world) {
    if (world.size() != arguments_.size)
      journal_.give_up("expected " + std::to_string(arguments_.size) + " ranks, found " + std::to_string(world.size()));
    steps_.take(std::move(world));
    std::array<std::int64_t, 3> counts = {static_cast<std::int64_t>(step_), recoveries_, measures_};
    Status agreed = deadlines_.hold("all_reduce", Limits::kOperation, [&] {
      return steps_.world().all_reduce(counts.data(), counts.data(), counts.size(), DataType::int64, Operator::max);
    });
    if (!agreed) return agreed;
    step_ = static_cast<std::uint64_t>(counts[0]) + 1;
    recoveries_ = counts[1];
    measures_ = counts[2];
    if (Status split = steps_.split(); !split) return split;
    journal_.write("whole", std::to_string(step_) + " " + std::to_string(recoveries_));
    return {};
  }

  Result<Wish> agree() {
    std::int32_t wish = go_on;
    if (steps_.world().rank() == 0)
      wish = exists("stop") ? stop : exists("measure." + std::to_string(measures_)) ? measure : go_on;
    Status told = deadlines_.hold("all_reduce", Limits::kOperation, [&] {
      return steps_.world().all_reduce(&wish, &wish, 1, DataType::int32, Operator::max);
    });
    if (!told) return tl::unexpected(told.error());
    return static_cast<Wish>(wish);
  }

  Status one_step(bool& more) {
    const Result<Wish> wish = agree();
    if (!wish) return tl::unexpected(wish.error());
    more = *wish != stop;
    if (*wish == measure) return measure_resources();
    if (!more) return {};
    if (Status done = steps_.run(step_); !done) return done;
    journal_.write("step", std::to_string(step_));
    ++step_;
    return {};
  }

  Status barrier() {
    return deadlines_.hold("barrier", Limits::kOperation, [&] { return steps_.world().barrier(); });
  }

  /// At a point where nothing is under way, on the same communicators each time.
  Status measure_resources() {
    if (Status all = steps_.tidy(); !all) return all;
    const Resources held = settled_resources(measures_ == 0 ? 0 : kQuietSeconds, kSettleSeconds);
    journal_.write("measured", std::to_string(measures_) + " " + held.to_string());
    journal_.write("descriptors", describe_descriptors());
    std::ofstream(arguments_.journal + ".maps." + std::to_string(measures_))
        << std::ifstream("/proc/self/maps").rdbuf();
    ++measures_;
    return barrier();
  }

  Status recover(const Error& error) {
    journal_.write("lost", std::string(name_of(error.code)) + ": " + error.to_string());
    if (error.code != ErrorCode::rank_died && error.code != ErrorCode::aborted)
      journal_.give_up("a call failed: " + error.to_string());
    Communicator broken = steps_.end();
    ShrinkOptions options;
    options.seconds = kShrinkSeconds;
    Result<Communicator> left = deadlines_.hold("shrink", kShrinkSeconds, [&] { return broken.shrink(options); });
    if (!left) journal_.give_up("shrink: " + left.error().to_string());
    journal_.write("shrunk", std::to_string(left->size()));
    drop(std::move(broken));
    if (left->size() == arguments_.size) return begin(std::move(*left));
    Communicator grown = grow_again(*left);
    drop(std::move(*left));
    return begin(std::move(grown));
  }

  void drop(Communicator communicator) {
    deadlines_.hold("destruction", Limits::kDestruction, [&] {
      const Communicator dropped = std::move(communicator);
      return true;
    });
  }

  /// Grows until all ranks have. A meeting does not survive the loss of its connections; the communicator that is to
  /// grow does, and on it the ranks tell each other how they fared.
  Communicator grow_again(Communicator& left) {
    for (int attempt = 1; attempt <= kAttempts; ++attempt) {
      recoveries_ = most(left, recoveries_) + 1;
      Result<Communicator> grown = grow(left);
      if (most(left, grown ? 0 : 1) == 0) return std::move(*grown);
      journal_.write("regrow", grown ? "another rank failed" : grown.error().to_string());
      if (grown) drop(std::move(*grown));
    }
    journal_.give_up("grow: failed " + std::to_string(kAttempts) + " times");
  }

  /// Returns the largest of what the ranks say.
  std::int64_t most(Communicator& left, std::int64_t value) {
    const Status agreed = deadlines_.hold("all_reduce", Limits::kOperation, [&] {
      return left.all_reduce(&value, &value, 1, DataType::int64, Operator::max);
    });
    if (!agreed) journal_.give_up("the shrunk communicator: " + agreed.error().to_string());
    return value;
  }

  Result<Communicator> grow(Communicator& left) {
    GrowOptions options;
    options.newcomers = arguments_.size - left.size();
    options.seconds = kGrowSeconds;
    options.invite = [&](const UniqueId& id) { invite(id); };
    return deadlines_.hold("grow", kGrowSeconds + kEntrySeconds, [&] { return left.grow(options); });
  }

  /// The file appears whole.
  void invite(const UniqueId& id) {
    const std::string path = arguments_.folder + "/invite." + std::to_string(recoveries_);
    {
      std::ofstream file(path + ".new");
      file << id.to_string() << "\n";
      if (!file.flush()) journal_.give_up("cannot write " + path);
    }
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) journal_.give_up("cannot write " + path);
  }

  Arguments arguments_;
  Options options_ = Options::from_environment();
  Journal journal_;
  Deadlines deadlines_;
  Steps steps_;
  std::uint64_t step_ = 0;
  std::int64_t recoveries_ = 0;
  std::int64_t measures_ = 0;
};

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("One rank of a training-like job that bench/chaos.py disturbs.");
  app.add_option("--seed", arguments.seed, "of what the steps do");
  app.add_option("--folder", arguments.folder, "where the script and the ranks leave files for each other")->required();
  app.add_option("--journal", arguments.journal, "what this rank goes through")->required();
  app.add_option("--size", arguments.size, "of the whole job")->required();
  app.add_option("--join", arguments.join, "a file with the id of ranks that take this one in");
  app.add_option("--wish", arguments.wish, "the rank wished for");
  CLI11_PARSE(app, argc, argv);
  Rank rank(arguments);
  rank.run();
  return 0;
}

}  // namespace
}  // namespace tutti::labs

int main(int argc, char** argv) { return tutti::labs::run(argc, argv); }
