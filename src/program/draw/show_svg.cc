#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "documents/xml_text.hpp"
#include "program/draw/show.hpp"

namespace tutti {
namespace {

constexpr int kMaxRanks = 32;
constexpr int kMaxColumns = 64;
constexpr std::size_t kMaxBoxes = 8192;

// Pixels.
constexpr int kBoxWidth = 116;
constexpr int kBoxHeight = 36;
constexpr int kColumn = 178;
constexpr int kRow = 54;
constexpr int kRankGap = 14;
constexpr int kLeft = 132;
constexpr int kTop = 84;

/// A step, and where it stands.
struct Box {
  int rank, worker, number;
  const Step* step;
  int row = 0;
  int column = 0;
  bool stuck = false;
};

enum class ArrowKind { transfer, signal, dependency };

struct Arrow {
  std::size_t from, to;
  ArrowKind kind;
};

/// The boxes and arrows of the ranks shown, laid out.
class ProgramLayout {
 public:
  explicit ProgramLayout(const Program& program) : ranks_(std::min(program.shape.ranks, kMaxRanks)) {
    for (int rank = 0; rank < ranks_; ++rank) parts_.push_back(program.part(rank));
    add_boxes();
    connect();
    place_columns();
  }

  int ranks() const { return ranks_; }
  const std::vector<RankProgram>& parts() const { return parts_; }
  const std::vector<Box>& boxes() const { return boxes_; }
  const std::vector<Arrow>& arrows() const { return arrows_; }
  int columns() const { return columns_; }
  bool cut() const { return cut_; }

 private:
  void add_boxes() {
    int row = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const RankProgram& part = parts_[static_cast<std::size_t>(rank)];
      for (std::size_t w = 0; w < part.workers.size(); ++w, ++row) {
        const std::vector<Step>& steps = part.workers[w].steps;
        for (std::size_t s = 0; s < steps.size(); ++s) {
          if (boxes_.size() == kMaxBoxes || s >= kMaxColumns) {
            cut_ = true;
            break;
          }
          index_[{rank, static_cast<int>(w), static_cast<int>(s)}] = boxes_.size();
          boxes_.push_back({rank, static_cast<int>(w), static_cast<int>(s), &steps[s], row});
        }
      }
    }
  }

  /// The i-th send of (source, target, channel) meets the i-th receive; likewise signals and waits.
  void connect() {
    using Channel = std::tuple<bool, int, int, int>;
    std::map<Channel, std::vector<std::size_t>> departures, arrivals;
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      const Box& box = boxes_[i];
      const Worker& worker = parts_[static_cast<std::size_t>(box.rank)].workers[static_cast<std::size_t>(box.worker)];
      const Step& step = *box.step;
      if (sends(step.kind)) departures[{true, box.rank, worker.send_peer, worker.channel}].push_back(i);
      if (receives(step.kind)) arrivals[{true, worker.recv_peer, box.rank, worker.channel}].push_back(i);
      if (step.kind == StepKind::signal) departures[{false, box.rank, step.peer, worker.channel}].push_back(i);
      if (step.kind == StepKind::wait) arrivals[{false, step.peer, box.rank, worker.channel}].push_back(i);
      for (const Dependency& on : step.after)
        if (const auto found = index_.find({box.rank, on.worker, on.step}); found != index_.end())
          arrows_.push_back({found->second, i, ArrowKind::dependency});
    }
    for (const auto& [channel, from] : departures) {
      const std::vector<std::size_t>& to = arrivals[channel];
      const auto kind = std::get<0>(channel) ? ArrowKind::transfer : ArrowKind::signal;
      for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) arrows_.push_back({from[i], to[i], kind});
    }
  }

  /// The longest path to each box; what lies on a circle is put behind the rest.
  void place_columns() {
    std::vector<std::vector<std::size_t>> next(boxes_.size());
    std::vector<int> missing(boxes_.size(), 0);
    const auto edge = [&](std::size_t from, std::size_t to) {
      next[from].push_back(to);
      ++missing[to];
    };
    for (std::size_t i = 1; i < boxes_.size(); ++i)
      if (boxes_[i].row == boxes_[i - 1].row) edge(i - 1, i);
    for (const Arrow& arrow : arrows_) edge(arrow.from, arrow.to);
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      if (missing[i] == 0) ready.push_back(i);
    while (!ready.empty()) {
      const std::size_t box = ready.back();
      ready.pop_back();
      columns_ = std::max(columns_, boxes_[box].column + 1);
      for (const std::size_t to : next[box]) {
        boxes_[to].column = std::max(boxes_[to].column, boxes_[box].column + 1);
        if (--missing[to] == 0) ready.push_back(to);
      }
    }
    place_stuck(missing);
    cut_ = cut_ || columns_ > kMaxColumns;
    columns_ = std::min(columns_, kMaxColumns);
  }

  void place_stuck(const std::vector<int>& missing) {
    const int behind = columns_;
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      if (missing[i] == 0) continue;
      const bool follows = i > 0 && boxes_[i - 1].row == boxes_[i].row && boxes_[i - 1].stuck;
      boxes_[i].stuck = true;
      boxes_[i].column = follows ? boxes_[i - 1].column + 1 : behind;
      columns_ = std::max(columns_, boxes_[i].column + 1);
    }
  }

  int ranks_;
  std::vector<RankProgram> parts_;
  std::vector<Box> boxes_;
  std::vector<Arrow> arrows_;
  std::map<std::tuple<int, int, int>, std::size_t> index_;
  int columns_ = 0;
  bool cut_ = false;
};

struct StepStyle {
  const char* label;
  const char* fill;
  const char* edge;
};

StepStyle style_of(StepKind kind) {
  switch (kind) {
    case StepKind::nop:
      return {"nop", "#eef0f2", "#a3abb5"};
    case StepKind::send:
      return {"send", "#dbeafe", "#3b82f6"};
    case StepKind::recv:
      return {"recv", "#dcfce7", "#22a355"};
    case StepKind::recv_reduce:
      return {"recv reduce", "#ffedd5", "#ea7a1a"};
    case StepKind::recv_copy_send:
      return {"recv copy send", "#ccfbf1", "#14a091"};
    case StepKind::recv_reduce_send:
      return {"recv reduce send", "#fee2e2", "#dc4a4a"};
    case StepKind::recv_reduce_copy_send:
      return {"recv red. copy send", "#fce7f3", "#d6428f"};
    case StepKind::copy:
      return {"copy", "#fef9c3", "#c49a0c"};
    case StepKind::reduce:
      return {"reduce", "#ede9fe", "#8257e5"};
    case StepKind::signal:
      return {"signal", "#e0e7ff", "#6366f1"};
    case StepKind::wait:
      return {"wait", "#f1f5f9", "#64748b"};
  }
  return {"?", "#ffffff", "#000000"};
}

std::string brief(const std::vector<Cells>& cells) {
  static constexpr std::string_view kBuffers[] = {"in", "out", "tmp"};
  if (cells.size() > 1) return fmt::format("{} cells", cells.size());
  const Cells& cell = cells.front();
  std::string text = cell.rank == kSelf ? "" : fmt::format("r{}.", cell.rank);
  text += fmt::format("{} {}", kBuffers[static_cast<std::size_t>(cell.buffer)], cell.first);
  if (cell.count > 1) text += fmt::format("-{}", cell.first + cell.count - 1);
  return text;
}

std::string caption(const Step& step) {
  if (step.kind == StepKind::signal) return fmt::format("rank {}", step.peer);
  if (step.kind == StepKind::wait) return fmt::format("rank {}", step.peer);
  if (step.sources.empty() && step.targets.empty()) return "";
  if (step.sources.empty()) return brief(step.targets);
  if (step.targets.empty()) return brief(step.sources);
  if (step.sources == step.targets) return brief(step.targets);
  return brief(step.sources) + " → " + brief(step.targets);
}

/// Everything the box has no room for.
std::string tooltip(const Box& box) {
  std::string text =
      fmt::format("rank {} worker {} step {}: {}", box.rank, box.worker, box.number, name_of(box.step->kind));
  for (const Cells& cells : box.step->sources) text += fmt::format("; from {}", show_cells(cells));
  for (const Cells& cells : box.step->targets) text += fmt::format("; to {}", show_cells(cells));
  if (box.step->completes) text += "; completes";
  return text;
}

class Picture {
 public:
  Picture(const Program& program, const ProgramLayout& layout) : program_(program), layout_(layout) {}

  std::string draw() {
    place_rows();
    const int width = std::max(kLeft + layout_.columns() * kColumn + 8, 760);
    const int height = bottom_ + 64;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"Inter, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif\">\n",
        width, height);
    draw_definitions();
    out_ += fmt::format("<rect width=\"{}\" height=\"{}\" fill=\"#fbfcfd\"/>\n", width, height);
    draw_title();
    draw_bands(width);
    for (const Arrow& arrow : layout_.arrows()) draw_arrow(arrow);
    for (const Box& box : layout_.boxes()) draw_box(box);
    draw_legend();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  void place_rows() {
    int y = kTop;
    for (const RankProgram& part : layout_.parts()) {
      band_top_.push_back(y);
      for (std::size_t w = 0; w < part.workers.size(); ++w, y += kRow) row_top_.push_back(y + (kRow - kBoxHeight) / 2);
      if (part.workers.empty()) y += kRow;
      band_end_.push_back(y);
      y += kRankGap;
    }
    bottom_ = y;
  }

  void draw_definitions() {
    out_ += "<defs>";
    for (const auto& [name, colour] : {std::pair{"t", "#5b6b7f"}, {"g", "#6366f1"}, {"d", "#b3bcc7"}})
      out_ += fmt::format(
          "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
          "orient=\"auto\"><path d=\"M0 0.6 L8 4 L0 7.4 z\" fill=\"{}\"/></marker>",
          name, colour);
    out_ += "</defs>\n";
  }

  void draw_title() {
    const Shape& shape = program_.shape;
    std::string what = fmt::format("{}, {} rank{}, {} chunk{}", name_of(shape.collective), shape.ranks,
                                   shape.ranks == 1 ? "" : "s", shape.chunks, shape.chunks == 1 ? "" : "s");
    if (has_root(shape.collective)) what += fmt::format(", root {}", shape.root);
    if (layout_.ranks() < shape.ranks) what += fmt::format("; the first {} ranks shown", layout_.ranks());
    if (layout_.cut()) what += fmt::format("; the first {} columns shown", kMaxColumns);
    out_ += fmt::format(
        "<text x=\"20\" y=\"34\" font-size=\"19\" font-weight=\"600\" fill=\"#1f2a37\">{}</text>\n"
        "<text x=\"20\" y=\"56\" font-size=\"12.5\" fill=\"#64748b\">{}</text>\n",
        escape_xml(program_.name), escape_xml(what));
  }

  void draw_bands(int width) {
    std::size_t row = 0;
    for (std::size_t rank = 0; rank < layout_.parts().size(); ++rank) {
      const int top = band_top_[rank];
      const int height = band_end_[rank] - top;
      out_ += fmt::format(
          "<rect x=\"12\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"9\" fill=\"#f1f4f8\"/>\n"
          "<text x=\"26\" y=\"{}\" font-size=\"13.5\" font-weight=\"600\" fill=\"#334155\">rank {}</text>\n",
          top, width - 24, height, top + height / 2 + 5, rank);
      for (const Worker& worker : layout_.parts()[rank].workers) {
        const int middle = row_top_[row++] + kBoxHeight / 2;
        out_ += fmt::format(
            "<text x=\"{}\" y=\"{}\" font-size=\"10.5\" fill=\"#8794a5\" text-anchor=\"end\">ch {}</text>\n"
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#dde4ec\" stroke-width=\"1.5\"/>\n",
            kLeft - 12, middle + 4, worker.channel, kLeft - 6, middle, width - 20, middle);
      }
    }
  }

  int x_of(const Box& box) const { return kLeft + box.column * kColumn; }
  int y_of(const Box& box) const { return row_top_[static_cast<std::size_t>(box.row)]; }

  void draw_arrow(const Arrow& arrow) {
    const Box& from = layout_.boxes()[arrow.from];
    const Box& to = layout_.boxes()[arrow.to];
    if (from.column >= kMaxColumns || to.column >= kMaxColumns) return;
    const int x1 = x_of(from) + kBoxWidth;
    const int y1 = y_of(from) + kBoxHeight / 2;
    const int x2 = x_of(to) - 2;
    const int y2 = y_of(to) + kBoxHeight / 2;
    const int bend = std::clamp((x2 - x1) / 3, 26, 90);
    const bool dependency = arrow.kind == ArrowKind::dependency;
    const bool signal = arrow.kind == ArrowKind::signal;
    out_ += fmt::format(
        "<path d=\"M{} {} C{} {} {} {} {} {}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
        "stroke-opacity=\"0.75\"{} marker-end=\"url(#{})\"/>\n",
        x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2,
        dependency ? "#b3bcc7"
        : signal   ? "#6366f1"
                   : "#5b6b7f",
        dependency ? "1.2" : "1.5",
        dependency ? " stroke-dasharray=\"4 3\""
        : signal   ? " stroke-dasharray=\"7 3\""
                   : "",
        dependency ? "d"
        : signal   ? "g"
                   : "t");
  }

  void draw_box(const Box& box) {
    if (box.column >= kMaxColumns) return;
    const StepStyle style = style_of(box.step->kind);
    const int x = x_of(box);
    const int y = y_of(box);
    const std::string cells = caption(*box.step);
    const std::string_view label = style.label;
    out_ += fmt::format(
        "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"7\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"{}\"/>",
        escape_xml(tooltip(box)), x, y, kBoxWidth, kBoxHeight, style.fill, box.stuck ? "#dc2626" : style.edge,
        box.stuck             ? 2.6
        : box.step->completes ? 2.2
                              : 1.2);
    text(x + kBoxWidth / 2, y + (cells.empty() ? 22 : 15),
         label.size() > 16   ? 9.5
         : label.size() > 14 ? 10.5
                             : 11,
         "600", "#1f2a37", label);
    if (!cells.empty()) text(x + kBoxWidth / 2, y + 29, cells.size() > 18 ? 9 : 10.5, "400", "#475569", cells);
    out_ += "</g>\n";
  }

  void text(int x, int y, double size, const char* weight, const char* colour, std::string_view content) {
    out_ += fmt::format(
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"{}\" fill=\"{}\" text-anchor=\"middle\">{}</text>", x,
        y, size, weight, colour, escape_xml(content));
  }

  /// The kinds that occur, then what lines mean.
  void draw_legend() {
    int x = 20;
    const int y = bottom_ + 14;
    const auto label = [&](std::string_view content) {
      out_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#475569\">{}</text>\n", x + 28, y + 11,
                          escape_xml(content));
      x += 28 + static_cast<int>(content.size()) * 7 + 18;
    };
    for (int kind = 0; kind <= static_cast<int>(StepKind::wait); ++kind) {
      const auto same = [&](const Box& box) { return box.step->kind == static_cast<StepKind>(kind); };
      if (std::none_of(layout_.boxes().begin(), layout_.boxes().end(), same)) continue;
      const StepStyle style = style_of(static_cast<StepKind>(kind));
      out_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"22\" height=\"14\" rx=\"4\" fill=\"{}\" stroke=\"{}\" "
          "stroke-width=\"1.2\"/>",
          x, y, style.fill, style.edge);
      std::string name(name_of(static_cast<StepKind>(kind)));
      std::replace(name.begin(), name.end(), '_', ' ');
      label(name);
    }
    x = 20;
    out_ += fmt::format(
        "<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#64748b\">solid arrow: data · dashed: signal · thin dashed: "
        "order between workers of a rank · thick frame: completes a reduction · columns: earliest possible "
        "order</text>\n",
        x, y + 36);
  }

  const Program& program_;
  const ProgramLayout& layout_;
  std::string out_;
  std::vector<int> row_top_;
  std::vector<int> band_top_;
  std::vector<int> band_end_;
  int bottom_ = 0;
};

}  // namespace

std::string show_svg(const Program& program) {
  const ProgramLayout layout(program);
  return Picture(program, layout).draw();
}

}  // namespace tutti
