#include "topology/draw/show_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "documents/xml_text.hpp"
#include "topology/draw/picture.hpp"
#include "topology/quantity.hpp"

namespace tutti {
namespace {

constexpr double kHead = 74;  // above the drawing
constexpr std::array<const char*, 6> kColours = {"#16a34a", "#2563eb", "#b45309", "#7c3aed", "#0f766e", "#be123c"};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Links of one name and figures.
struct LinkKind {
  std::string name;
  Rational capacity, latency;

  auto key() const { return std::tie(name, capacity, latency); }
  bool operator<(const LinkKind& other) const { return key() < other.key(); }
};

LinkKind class_of(const Link& link) { return {link.name.empty() ? "link" : link.name, link.capacity, link.latency}; }

std::map<LinkKind, int> classes_of(const Topology& topology) {
  std::map<LinkKind, int> classes;
  for (const Link& link : topology.links()) ++classes[class_of(link)];
  return classes;
}

std::string count_of(int count, const char* what) { return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"); }

std::string summary(const Topology& topology) {
  int nics = 0, switches = 0;
  for (const Vertex& vertex : topology.vertices()) {
    nics += vertex.kind == VertexKind::nic ? 1 : 0;
    switches += vertex.kind == VertexKind::switch_ ? 1 : 0;
  }
  std::string text = fmt::format("{} in {}", count_of(topology.ranks(), "GPU"), count_of(topology.nodes(), "node"));
  if (nics > 0) text += ", " + count_of(nics, "NIC");
  if (switches > 0) text += fmt::format(", {} switch{}", switches, switches == 1 ? "" : "es");
  return text + ", " + count_of(topology.link_count(), "directed link");
}

class Drawing {
 public:
  explicit Drawing(const Topology& topology)
      : topology_(topology), picture_(lay_out(topology, kHead)), classes_(classes_of(topology)) {
    std::set<std::string> names;
    for (const auto& [kind, count] : classes_) {
      names.insert(kind.name);
      slowest_ = slowest_ == 0 ? kind.capacity.value() : std::min(slowest_, kind.capacity.value());
    }
    for (const std::string& name : names) colour_[name] = kColours[colour_.size() % kColours.size()];
  }

  std::string draw() {
    const double width = std::max(picture_.width, 520.0);
    const double height = picture_.height + 26 + 20 * double(std::min<std::size_t>(classes_.size(), kMostClasses));
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"system-ui, sans-serif\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n",
        width, height);
    draw_title();
    for (int node = 0; node < topology_.nodes(); ++node) draw_node(node);
    draw_links();
    for (int v = 0; v < topology_.vertex_count(); ++v) draw_vertex(v);
    draw_legend();
    return out_ + "</svg>\n";
  }

 private:
  static constexpr std::size_t kMostClasses = 12;

  void draw_title() {
    std::string what = summary(topology_);
    if (picture_.nodes_shown < topology_.nodes())
      what += fmt::format("; the first {} nodes shown", picture_.nodes_shown);
    out_ += fmt::format(
        "<text x=\"20\" y=\"32\" font-size=\"19\" font-weight=\"600\" fill=\"#1f2a37\">{}</text>\n"
        "<text x=\"20\" y=\"54\" font-size=\"12.5\" fill=\"#64748b\">{}</text>\n",
        escape_xml(topology_.name()), escape_xml(what));
  }

  void draw_node(int node) {
    const PictureSpot& spot = picture_.nodes[at(node)];
    if (!spot.shown) return;
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"10\" fill=\"#f6f8fb\" "
        "stroke=\"#d5dde7\"/>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"12\" font-weight=\"600\" fill=\"#64748b\">node {}</text>\n",
        spot.left(), spot.top(), spot.width, spot.height, spot.left() + 12, spot.top() + 18, node);
  }

  /// 1 pixel for the slowest, more with the square root of the bandwidth, so that a double link looks wider, not twice.
  double thickness(const Rational& capacity) const {
    return std::clamp(1.1 * std::sqrt(capacity.value() / slowest_), 1.1, 6.0);
  }

  /// A link and its way back are one line.
  void draw_links() {
    std::set<std::tuple<int, int, LinkKind>> drawn;
    for (const Link& link : topology_.links()) {
      const auto [low, high] = std::minmax(link.from, link.to);
      if (!picture_.vertices[at(low)].shown || !picture_.vertices[at(high)].shown) continue;
      if (drawn.insert({low, high, class_of(link)}).second) draw_link(link);
    }
  }

  void draw_link(const Link& link) {
    PictureSpot a = picture_.vertices[at(link.from)], b = picture_.vertices[at(link.to)];
    const bool bar_a = topology_.vertex(link.from).kind == VertexKind::switch_;
    const bool bar_b = topology_.vertex(link.to).kind == VertexKind::switch_;
    const LinkKind kind = class_of(link);
    if (bar_a && bar_b) a.x = b.x = (std::max(a.left(), b.left()) + std::min(a.right(), b.right())) / 2;
    if (bar_b && !bar_a) end_on_bar(a, b, kind.name);
    if (bar_a && !bar_b) end_on_bar(b, a, kind.name);
    const bool direct = !bar_a && !bar_b;
    // Where there are faster links, the slowest stand back.
    const bool faint = classes_.size() > 2 && direct && link.capacity.value() <= slowest_;
    out_ += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-opacity=\"{}\"><title>{}: {}, "
        "{}</title></path>\n",
        path(a, b, direct, leaves_its_node(link)), colour_[kind.name], thickness(link.capacity), faint ? 0.35 : 0.75,
        escape_xml(topology_.describe(link)), show_bandwidth(link.capacity), show_latency(link.latency));
  }

  /// Lines fall straight onto a bar where they can, and end with a dot at its edge: bars of other switches, which they
  /// may pass behind, have none.
  void end_on_bar(const PictureSpot& from, PictureSpot& bar, const std::string& name) {
    const double x = std::clamp(from.x, bar.left() + 6, bar.right() - 6);
    bar.y = from.y < bar.y ? bar.top() : bar.bottom();
    bar.x = x;
    dots_.push_back({bar.x, bar.y, name});
  }

  bool leaves_its_node(const Link& link) const {
    const int from = topology_.vertex(link.from).node, to = topology_.vertex(link.to).node;
    return from != kSharedNode && to != kSharedNode && from != to;
  }

  /// Straight; bent where it would run along a row of other vertices.
  static std::string path(const PictureSpot& a, const PictureSpot& b, bool direct, bool leaves_node) {
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    const bool along = direct && (std::abs(a.x - b.x) < 1 || std::abs(a.y - b.y) < 1) && length > 90;
    if (!leaves_node && !along) return fmt::format("M{:.1f} {:.1f} L{:.1f} {:.1f}", a.x, a.y, b.x, b.y);
    const double off = std::min(60.0, 14 + length * 0.09);
    const double side_x = (b.y - a.y) / length * off, side_y = -(b.x - a.x) / length * off;
    return fmt::format("M{:.1f} {:.1f} Q{:.1f} {:.1f} {:.1f} {:.1f}", a.x, a.y, (a.x + b.x) / 2 + side_x,
                       (a.y + b.y) / 2 + side_y, b.x, b.y);
  }

  /// The name without the node's, which the box around it says.
  std::string label(const Vertex& vertex) const {
    const std::string prefix = fmt::format("n{}.", vertex.node);
    return vertex.name.rfind(prefix, 0) == 0 ? vertex.name.substr(prefix.size()) : vertex.name;
  }

  void draw_vertex(int index) {
    const PictureSpot& spot = picture_.vertices[at(index)];
    if (!spot.shown) return;
    const Vertex& vertex = topology_.vertex(index);
    const bool bar = vertex.kind == VertexKind::switch_;
    const char* fill = bar ? "#e2e8f0" : vertex.kind == VertexKind::gpu ? "#dcfce7" : "#dbeafe";
    const char* edge = bar ? "#94a3b8" : vertex.kind == VertexKind::gpu ? "#4ade80" : "#60a5fa";
    std::string text = vertex.kind == VertexKind::gpu ? fmt::format("{}", vertex.rank) : label(vertex);
    if (vertex.skills.multicasts) text += " · multicasts";
    if (vertex.skills.reduces) text += " · reduces";
    const double size = std::min(11.5, 1.75 * spot.width / double(std::max<std::size_t>(text.size(), 1)));
    out_ += fmt::format(
        "<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"6\" fill=\"{}\" "
        "stroke=\"{}\" stroke-width=\"1.2\"/><text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\" fill=\"#1f2a37\" "
        "text-anchor=\"middle\">{}</text></g>\n",
        escape_xml(vertex.name), spot.left(), spot.top(), spot.width, spot.height, fill, edge, spot.x,
        spot.y + size * 0.36, size, escape_xml(text));
  }

  void draw_legend() {
    for (const auto& [x, y, name] : dots_)
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"/>\n", x, y, colour_[name]);
    double y = picture_.height + 8;
    std::size_t shown = 0;
    for (const auto& [kind, count] : classes_) {
      if (++shown > kMostClasses) break;
      out_ += fmt::format(
          "<line x1=\"20\" y1=\"{0:.1f}\" x2=\"60\" y2=\"{0:.1f}\" stroke=\"{1}\" stroke-width=\"{2:.1f}\"/>"
          "<text x=\"72\" y=\"{3:.1f}\" font-size=\"12\" fill=\"#475569\">{4}: {5}, {6} · {7}</text>\n",
          y, colour_[kind.name], thickness(kind.capacity), y + 4, escape_xml(kind.name), show_bandwidth(kind.capacity),
          show_latency(kind.latency), count_of(count, "link"));
      y += 20;
    }
  }

  const Topology& topology_;
  TopologyPicture picture_;
  std::map<LinkKind, int> classes_;
  std::map<std::string, const char*> colour_;
  std::vector<std::tuple<double, double, std::string>> dots_;  // where a line ends on a bar it shares with others
  double slowest_ = 0;
  std::string out_;
};

}  // namespace

std::string show_svg(const Topology& topology) { return Drawing(topology).draw(); }

std::string show_text(const Topology& topology) {
  std::string text = fmt::format("{}: {}\n", topology.name(), summary(topology));
  for (const auto& [kind, count] : classes_of(topology))
    text += fmt::format("  {:>6} x {:<10} {}, {}\n", count, kind.name, show_bandwidth(kind.capacity),
                        show_latency(kind.latency));
  return text;
}

}  // namespace tutti
