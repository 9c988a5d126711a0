#include "cli/demo/demo_rails.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cli/demo/namespace_rails.hpp"
#include "cli/support/command.hpp"
#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

constexpr int kFailing = 1;  // the rail
constexpr int kSlices = 5;   // samples of a column
constexpr int kDown = 20;    // columns
constexpr int kUp = 40;
constexpr int kColumnsOfALine = 5;    // where the output is no terminal
constexpr double kCarries = 0.05;     // Gb/s: more than what is sent to find out
constexpr double kSettles = 0.2;      // seconds after a change that count for no mean
constexpr double kPauseWithin = 1.0;  // seconds

double mean(std::span<const RailSample> samples, double from, double to) {
  const auto in_time = [](const RailSample& sample, double time) { return sample.seconds < time; };
  const auto first = std::lower_bound(samples.begin(), samples.end(), from, in_time);
  auto last = std::lower_bound(samples.begin(), samples.end(), to, in_time);
  if (last == samples.end()) --last;
  if (first >= last) return 0;
  const RailRates rates = rates_between(*first, *last);
  return rates[0] + rates[1];
}

double longest_gap(std::span<const double> ends, double from, double to) {
  double longest = 0;
  for (std::size_t i = 1; i < ends.size(); ++i)
    if (ends[i] >= from && ends[i - 1] <= to) longest = std::max(longest, ends[i] - ends[i - 1]);
  return longest;
}

double usual_gap(std::span<const double> ends, double until) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < ends.size() && ends[i] < until; ++i) gaps.push_back(ends[i] - ends[i - 1]);
  if (gaps.empty()) return 0;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return *middle;
}

bool is_live() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

/// The chart, drawn anew over itself; or a line now and then.
class View {
 public:
  View(double seconds, bool live) : live_(live), chart_(seconds, live && wants_color(STDOUT_FILENO)) {}

  void add(const RailSample& from, const RailSample& to) {
    const RailRates rates = rates_between(from, to);
    chart_.add(rates);
    if (live_) return draw();
    for (std::size_t rail = 0; rail < rates.size(); ++rail) sums_[rail] += rates[rail] / kColumnsOfALine;
    if (++columns_ % kColumnsOfALine != 0) return;
    fmt::print("{:>5.1f} s   rail0 {:>5.2f} Gb/s   rail1 {:>5.2f} Gb/s\n", to.seconds, sums_[0], sums_[1]);
    std::fflush(stdout);
    sums_ = {};
  }

  void mark(const std::string& text) {
    chart_.mark(text);
    if (!live_) fmt::print("          {}\n", text);
  }

 private:
  void draw() {
    const auto lines = chart_.lines();
    if (std::exchange(drawn_, true)) fmt::print("\x1b[{}F", lines.size());
    for (const std::string& line : lines) fmt::print("{}\x1b[K\n", line);
    std::fflush(stdout);
  }

  bool live_;
  RailChart chart_;
  bool drawn_ = false;
  int columns_ = 0;
  RailRates sums_{};
};

struct Course {
  std::vector<RailSample> samples;
  double down = 0;
  double up = 0;
};

Result<Course> run(Rails& rails, double seconds, View& view) {
  Course course;
  course.samples.push_back({rails.now(), rails.sent()});
  for (int column = 0; column < RailChart::kColumns; ++column) {
    const bool changes = column == kDown || column == kUp;
    if (changes) {
      (column == kDown ? course.down : course.up) = rails.now();
      if (auto set = rails.set_rail(kFailing, column == kUp); !set) return tl::unexpected(set.error());
      view.mark(fmt::format("rail{} {}", kFailing, column == kUp ? "up" : "down"));
    }
    const std::size_t first = course.samples.size() - 1;
    for (int slice = 1; slice <= kSlices; ++slice) {
      const double part = (column + static_cast<double>(slice) / kSlices) / RailChart::kColumns;
      if (auto flowed = rails.flow_until(seconds * part); !flowed) return tl::unexpected(flowed.error());
      course.samples.push_back({rails.now(), rails.sent()});
    }
    view.add(course.samples[first], course.samples.back());
  }
  if (auto ended = rails.finish(); !ended) return tl::unexpected(ended.error());
  return course;
}

void tell(const Rails& rails, const Course& course) {
  const RailStory story(course.samples, rails.ends(), kFailing, course.down, course.up);
  fmt::print("\nrail{} went down: traffic flowed again after {:.0f} ms, over rail0 alone.\n", kFailing,
             std::max(story.pause, 0.001) * 1e3);
  if (story.idle < 0)
    fmt::print("It came up again, but carried nothing before the end.\n");
  else
    fmt::print("It came up again, and carried again after {:.0f} ms.\n", std::max(story.idle, 0.001) * 1e3);
  fmt::print("Bandwidth: {:.2f} Gb/s before, {:.2f} without it, {:.2f} after.\n", story.before, story.without,
             story.after);
  fmt::print("{} {}, every result right.\n", rails.ends().size(), rails.operations());
}

}  // namespace

RailRates rates_between(const RailSample& from, const RailSample& to) {
  RailRates rates{};
  for (std::size_t rail = 0; rail < rates.size(); ++rail)
    if (to.seconds > from.seconds)
      rates[rail] = static_cast<double>(to.bytes[rail] - from.bytes[rail]) * 8e-9 / (to.seconds - from.seconds);
  return rates;
}

RailStory::RailStory(std::span<const RailSample> samples, std::span<const double> ends, int rail, double down,
                     double up) {
  pause = std::max(0.0, longest_gap(ends, down, down + kPauseWithin) - usual_gap(ends, down));
  idle = -1;
  for (std::size_t i = 1; i < samples.size() && idle < 0; ++i)
    if (samples[i - 1].seconds >= up &&
        rates_between(samples[i - 1], samples[i])[static_cast<std::size_t>(rail)] > kCarries)
      idle = samples[i - 1].seconds - up;
  const double end = samples.empty() ? 0 : samples.back().seconds;
  before = mean(samples, std::min(kSettles, down / 2), down);
  without = mean(samples, std::min(down + kSettles, (down + up) / 2), up);
  after = idle < 0 ? 0 : mean(samples, std::min(up + idle + kSettles, (up + idle + end) / 2), end);
}

int play_rails(double seconds, bool simulated) {
  const bool live = is_live();
  Interrupts interrupts;
  std::unique_ptr<Rails> rails;
  if (!simulated) {
    auto opened = open_rails({.seconds = seconds}, interrupts);
    if (opened) rails = std::move(*opened);
    if (interrupts.exit_status() != 0) return interrupts.exit_status();
    if (!opened) fmt::print("no rails of our own here ({}); simulated instead\n", opened.error().message);
  }
  if (!rails) rails = simulate_rails(live, interrupts);
  fmt::print("{}\nrail{} goes down, and comes back\n\n", rails->title(), kFailing);
  std::fflush(stdout);
  View view(seconds, live);
  const auto course = run(*rails, seconds, view);
  if (interrupts.exit_status() != 0) {
    if (live) fmt::print("\n");  // after ^C
    return interrupts.exit_status();
  }
  if (!course) return report_error("demo", course.error().message);
  tell(*rails, *course);
  return 0;
}

}  // namespace tutti::cli
