#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "cli/monitor/cluster_view.hpp"
#include "cli/monitor/collector_client.hpp"
#include "cli/monitor/top_view.hpp"
#include "cli/support/command.hpp"
#include "cli/support/screen.hpp"
#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

struct TopOptions {
  double interval = 1;
  std::string folder;
  bool once = false;
  CollectorFlags collector;
};

constexpr const char* kHelp =
    "q quit   sort: r rank, o operations, b bytes, w waiting   scroll: arrows, page up and down";

/// What there is to see, look after look.
class TopSource {
 public:
  virtual ~TopSource() = default;
  virtual void look_again() = 0;
  virtual TopFrame frame(const TopStyle& style) const = 0;
};

/// The recordings of this host.
class HostSource final : public TopSource {
 public:
  explicit HostSource(const TopOptions& options)
      : folders_(options.folder.empty() ? monitor::recording_folders() : std::vector<std::string>{options.folder}),
        before_(look()),
        now_(before_) {}

  void look_again() override {
    before_ = std::move(now_);
    now_ = look();
  }
  TopFrame frame(const TopStyle& style) const override { return top_frame(before_, now_, style); }

 private:
  monitor::Snapshot look() const { return monitor::take_snapshot(folders_, {.operations = true, .chunks = true}); }

  std::vector<std::string> folders_;
  monitor::Snapshot before_, now_;
};

/// What a collector knows of all hosts. While it does not answer, the last that it said stays.
class CollectorSource final : public TopSource {
 public:
  explicit CollectorSource(std::unique_ptr<CollectorClient> client) : client_(std::move(client)) { look_again(); }

  void look_again() override {
    auto answer = client_->ask(Deadline::in(kAnswerWithin));
    problem_ = answer ? "" : answer.error().message;
    if (!answer) return;
    before_ = std::move(now_);
    now_ = std::make_unique<JudgedCluster>(*std::move(answer));
  }
  TopFrame frame(const TopStyle& style) const override {
    TopFrame frame;
    if (now_ != nullptr) frame.body = cluster_lines(*now_, before_.get(), {style.color, true});
    if (!problem_.empty()) frame.head.push_back(paint(problem_, Color::red, style.color));
    return frame;
  }
  const std::string& problem() const { return problem_; }

 private:
  static constexpr double kAnswerWithin = 2;  // seconds, for which keys are not heard

  std::unique_ptr<CollectorClient> client_;
  std::unique_ptr<JudgedCluster> before_, now_;
  std::string problem_;
};

Result<std::unique_ptr<TopSource>> source_of(const TopOptions& options) {
  if (options.collector.collector.empty()) return std::make_unique<HostSource>(options);
  auto client = CollectorClient::open(options.collector);
  if (!client) return tl::unexpected(client.error());
  auto source = std::make_unique<CollectorSource>(*std::move(client));
  if (!source->problem().empty()) return fail(ErrorCode::system, source->problem());
  return source;
}

/// What is shown, and how far it is scrolled.
class Top {
 public:
  explicit Top(TopSource& source) : source_(source) { style_.color = wants_color(STDOUT_FILENO); }

  void draw(Screen& screen);
  /// False: that is all.
  bool press(const Pressed& pressed);

 private:
  TopSource& source_;
  TopStyle style_;
  std::size_t top_ = 0;    // line of the body that is shown first
  std::size_t page_ = 1;   // lines of the body that fit
  std::size_t lines_ = 0;  // of the body
};

void Top::draw(Screen& screen) {
  const TopFrame frame = source_.frame(style_);
  lines_ = frame.body.size();
  page_ = std::max<std::size_t>(1, screen.rows() - std::min(screen.rows(), frame.head.size() + 1));
  top_ = std::min(top_, lines_ - std::min(lines_, page_));
  std::vector<std::string> lines = frame.head;
  for (std::size_t i = top_; i < std::min(lines_, top_ + page_); ++i) lines.push_back(frame.body[i]);
  if (frame.body.empty()) lines.push_back("no recordings: nothing of yours uses tutti now");
  lines.resize(frame.head.size() + page_);
  lines.push_back(paint(kHelp, Color::dim, style_.color));
  screen.draw(lines);
}

bool Top::press(const Pressed& pressed) {
  const std::size_t back = std::min(top_, pressed.key == Key::page_up ? page_ : 1);
  switch (pressed.key) {
    case Key::none:
      break;
    case Key::interrupted:
      return false;
    case Key::up:
    case Key::page_up:
      top_ -= back;
      break;
    case Key::down:
      top_ += 1;
      break;
    case Key::page_down:
      top_ += page_;
      break;
    case Key::home:
      top_ = 0;
      break;
    case Key::end:
      top_ = lines_;
      break;
    case Key::letter:
      if (pressed.letter == 'q') return false;
      if (pressed.letter == 'r') style_.order = TopOrder::rank;
      if (pressed.letter == 'o') style_.order = TopOrder::operations;
      if (pressed.letter == 'b') style_.order = TopOrder::bytes;
      if (pressed.letter == 'w') style_.order = TopOrder::waiting;
  }
  return true;
}

int show(const TopOptions& options, TopSource& source) {
  if (const Status possible = Screen::is_possible(); !possible) {
    fmt::print(stderr, "tutti top: {}; --once prints a frame as text\n", possible.error().message);
    return kBadUsage;
  }
  Screen screen;
  Top top(source);
  // A first frame soon, though it tells of a short time.
  Deadline next = Deadline::in(std::min(0.2, options.interval));
  while (true) {
    top.draw(screen);
    if (!top.press(screen.wait_key(next.seconds_left()))) return screen.exit_status();
    if (!next.passed()) continue;
    source.look_again();
    next = Deadline::in(options.interval);
  }
}

int print_once(const TopOptions& options, TopSource& source) {
  std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  source.look_again();
  const TopFrame frame = source.frame({TopOrder::rank, wants_color(STDOUT_FILENO)});
  for (const auto* const part : {&frame.head, &frame.body})
    for (const std::string& line : *part) fmt::print("{}\n", line);
  return 0;
}

int run_top(const TopOptions& options) {
  const auto source = source_of(options);
  if (!source) return report_error("top", source.error().message, kBadUsage);
  return options.once ? print_once(options, **source) : show(options, **source);
}

}  // namespace

void add_top(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "top", "Watch the ranks and lanes of this host, or all hosts that a collector knows, as they work");
  auto options = std::make_shared<TopOptions>();
  command->add_option("--interval", options->interval, "seconds between looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  command->add_option("--dir", options->folder, "folder of recordings, instead of this user's (root: of all users)")
      ->option_text("FOLDER");
  command->add_flag("--once", options->once, "look twice, print one frame as text and end");
  add_collector_flags(*command, options->collector);
  command->get_option("--collector")->excludes(command->get_option("--dir"));
  command->footer(fmt::format("Keys: {}\n\nExamples:\n  tutti top\n  tutti top --once --interval 0.2", kHelp));
  command->callback([options, &status] { status = run_top(*options); });
}

}  // namespace tutti::cli
