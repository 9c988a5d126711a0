// Runs simulated jobs, a seed each, every one in a process of its own: all begin from the same state, and what one
// leaves behind does not matter to the next. Prints what happened, and how often; a seed that finds something wrong is
// named, and can be repeated alone.
#include <fmt/core.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/clock.hpp"
#include "base/settings.hpp"
#include "branches.hpp"
#include "job.hpp"

namespace tutti::simulated {
namespace {

struct Arguments {
  std::uint64_t first = 1;
  std::uint64_t count = 100;
  int jobs = 2;
  double seconds = 0;
  bool trace = false;
  bool twice = false;
  bool stop = false;
  std::string branches;
};

/// What the processes tell the one that started them: counts by name, and violations.
struct Report {
  Counts counts;
  std::string failure;
  std::uint64_t digest = 0;
};

const char* next_random_name() { return "simulated"; }
std::uint32_t next_random() { return static_cast<std::uint32_t>(Kernel::get().random()()); }
void fill_random(void* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<unsigned char*>(bytes)[i] = static_cast<unsigned char>(next_random());
}

Report simulate(std::uint64_t seed, bool trace) {
  Report report;
  Kernel kernel(seed);
  kernel.traces = trace;
  static randombytes_implementation implementation{next_random_name, next_random, nullptr,
                                                   nullptr,          fill_random, nullptr};
  randombytes_set_implementation(&implementation);
  SimulatedJob job(kernel, seed, report.counts);
  job.run();
  report.failure = kernel.failure();
  report.digest = kernel.digest();
  report.counts["seconds simulated"] = static_cast<std::uint64_t>(kernel.now() / kSecond - 1000);
  // What is left of the threads is never run again: nothing of theirs may be destroyed.
  return report;
}

void write_report(int pipe, const Report& report) {
  std::string text = fmt::format("{}\n", report.digest);
  for (const auto& [name, count] : report.counts) text += fmt::format("{}\t{}\n", count, name);
  text += "\n" + report.failure;
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t more = ::write(pipe, text.data() + written, text.size() - written);
    if (more <= 0) break;
    written += static_cast<std::size_t>(more);
  }
}

Report read_report(int pipe) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(pipe, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  Report report;
  std::size_t at = text.find('\n');
  if (at == std::string::npos) {
    report.failure = "the process died";
    return report;
  }
  report.digest = std::strtoull(text.c_str(), nullptr, 10);
  for (++at; at < text.size() && text[at] != '\n';) {
    const std::size_t end = text.find('\n', at);
    const std::size_t tab = text.find('\t', at);
    report.counts[text.substr(tab + 1, end - tab - 1)] += std::strtoull(text.c_str() + at, nullptr, 10);
    at = end + 1;
  }
  report.failure = at < text.size() ? text.substr(at + 1) : "the process died";
  return report;
}

/// The seeds that are under way.
class Runs {
 public:
  void start(std::uint64_t seed, bool trace) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child == 0) {
      ::close(ends[0]);
      ::alarm(60);
      write_report(ends[1], simulate(seed, trace));
      ::_exit(0);
    }
    ::close(ends[1]);
    running_.push_back({seed, child, ends[0]});
  }
  std::pair<std::uint64_t, Report> finish_oldest() {
    const Run run = running_.front();
    running_.erase(running_.begin());
    Report report = read_report(run.pipe);
    ::close(run.pipe);
    int status = 0;
    ::waitpid(run.process, &status, 0);
    if (WIFSIGNALED(status)) report.failure = fmt::format("signal {}", WTERMSIG(status));
    return {run.seed, std::move(report)};
  }
  std::size_t size() const { return running_.size(); }

 private:
  struct Run {
    std::uint64_t seed;
    pid_t process;
    int pipe;
  };
  std::vector<Run> running_;
};

void prepare() {
  const std::map<std::string, std::string> environment = {
      {"TUTTI_SHM", "0"},      {"TUTTI_MONITOR", "0"},           {"TUTTI_SPIN_US", "0"},
      {"TUTTI_YIELD_US", "0"}, {"TUTTI_HEARTBEAT_TIMEOUT", "1"}, {"TUTTI_CMA", "0"}};
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("TUTTI_LOG", "off", 0);
  g_is_counter_unsteady = true;
  if (sodium_init() < 0) std::abort();
  (void)settings();
  Fiber::prepare(96);
}

int run(const Arguments& arguments) {
  prepare();
  if (!arguments.branches.empty()) count_branches();
  Counts counts;
  std::uint64_t done = 0;
  std::uint64_t failures = 0;
  const auto begun = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  Runs runs;
  std::uint64_t next = arguments.first;
  const std::uint64_t end = arguments.first + arguments.count;
  while (next < end || runs.size() > 0) {
    const bool time_is_up = arguments.seconds > 0 && elapsed() > arguments.seconds;
    if (time_is_up) next = end;
    if (next < end && runs.size() < static_cast<std::size_t>(arguments.jobs)) {
      runs.start(next++, arguments.trace);
      continue;
    }
    if (runs.size() == 0) break;
    auto [seed, report] = runs.finish_oldest();
    ++done;
    for (const auto& [name, count] : report.counts) counts[name] += count;
    if (arguments.twice) {
      Runs again;
      again.start(seed, false);
      if (again.finish_oldest().second.digest != report.digest) report.failure = "two runs of the seed differ";
    }
    if (report.failure.empty()) continue;
    ++failures;
    if (failures <= 20) fmt::print("seed {}: {}\n", seed, report.failure);
    std::fflush(stdout);
    if (arguments.stop) next = end;
  }
  for (const auto& [name, count] : counts) fmt::print("{:>12}  {}\n", count, name);
  fmt::print("{} seeds in {:.1f} s, {} with a violation\n", done, elapsed(), failures);
  if (!arguments.branches.empty() && !write_branches(arguments.branches)) {
    fmt::print(stderr, "job_simulation: cannot write {}\n", arguments.branches);
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::simulated

int main(int argc, char** argv) {
  tutti::simulated::Arguments arguments;
  CLI::App app("Simulated jobs on networks that fail: the whole library on a simulated kernel, from a seed.");
  app.add_option("--first", arguments.first, "the first seed (1)");
  app.add_option("--count", arguments.count, "how many (100)");
  app.add_option("--jobs", arguments.jobs, "at a time (2)");
  app.add_option("--seconds", arguments.seconds, "start no more after this");
  app.add_flag("--trace", arguments.trace, "print what happens");
  app.add_flag("--stop", arguments.stop, "end with the first violation");
  app.add_option("--branches", arguments.branches, "write to this file how often each branch was taken");
  app.add_flag("--twice", arguments.twice, "run each seed twice and compare");
  CLI11_PARSE(app, argc, argv);
  // Addresses are the same in every run.
  if (::personality(0xffffffff) != -1 && (::personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0 &&
      ::personality(ADDR_NO_RANDOMIZE) != -1)
    ::execv("/proc/self/exe", argv);
  return tutti::simulated::run(arguments);
}
