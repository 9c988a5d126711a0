#include "topology/draw/picture.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tutti {
namespace {

constexpr int kMostGpus = 64, kMostGpusOfNode = 256;
constexpr int kMostOnCircle = 16;
constexpr double kBox = 42, kBoxHeight = 26;  // of a GPU or NIC
constexpr double kStep = 54;                  // from one to the next
constexpr double kBar = 22;                   // height of a switch
constexpr double kBarGap = 10;                // between bars
constexpr double kLayer = 62;                 // from one layer to the next
constexpr double kMargin = 20, kPadding = 18, kGap = 26;
constexpr double kTitle = 20;  // of a node

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Vertices of a node, by what they are and how far from its GPUs.
struct NodeParts {
  std::vector<int> gpus;
  std::vector<int> crossbars;           // switches whose neighbours are all GPUs
  std::vector<std::vector<int>> below;  // bridges and NICs, by distance
};

class TopologyLayout {
 public:
  TopologyLayout(const Topology& topology, double top) : topology_(topology), top_(top) {
    picture_.vertices.resize(topology.vertices().size());
    picture_.nodes.resize(at(topology.nodes()));
  }

  TopologyPicture run() {
    sort_into_nodes();
    choose_nodes();
    place_nodes();
    place_shared();
    picture_.width = right_ + kMargin;
    picture_.height = bottom_ + kMargin;
    return std::move(picture_);
  }

 private:
  bool joins_gpus_only(int vertex) const {
    const auto is_gpu = [&](int other) { return topology_.vertex(other).kind == VertexKind::gpu; };
    const auto& out = topology_.out_links(vertex);
    return !out.empty() &&
           std::all_of(out.begin(), out.end(), [&](int link) { return is_gpu(topology_.link(link).to); }) &&
           std::all_of(topology_.in_links(vertex).begin(), topology_.in_links(vertex).end(),
                       [&](int link) { return is_gpu(topology_.link(link).from); });
  }

  void sort_into_nodes() {
    parts_.resize(at(topology_.nodes()));
    const std::vector<int> distance = distance_from_gpus();
    for (int v = 0; v < topology_.vertex_count(); ++v) {
      const Vertex& vertex = topology_.vertex(v);
      if (vertex.node == kSharedNode) continue;
      NodeParts& parts = parts_[at(vertex.node)];
      if (vertex.kind == VertexKind::gpu) {
        parts.gpus.push_back(v);
      } else if (vertex.kind == VertexKind::switch_ && joins_gpus_only(v)) {
        parts.crossbars.push_back(v);
      } else {
        const std::size_t layer = at(std::max(distance[at(v)], 1)) - 1;
        if (parts.below.size() <= layer) parts.below.resize(layer + 1);
        parts.below[layer].push_back(v);
      }
    }
  }

  /// Links, not counting their direction.
  std::vector<int> distance_from_gpus() const {
    std::vector<int> distance(topology_.vertices().size(), -1), open = topology_.gpus();
    for (const int gpu : open) distance[at(gpu)] = 0;
    for (std::size_t next = 0; next < open.size(); ++next) {
      const int vertex = open[next];
      const auto reach = [&](int other) {
        if (distance[at(other)] >= 0) return;
        distance[at(other)] = distance[at(vertex)] + 1;
        open.push_back(other);
      };
      for (const int link : topology_.out_links(vertex)) reach(topology_.link(link).to);
      for (const int link : topology_.in_links(vertex)) reach(topology_.link(link).from);
    }
    return distance;
  }

  void choose_nodes() {
    int gpus = 0;
    for (const NodeParts& parts : parts_) {
      gpus += static_cast<int>(parts.gpus.size());
      if (picture_.nodes_shown > 0 && gpus > kMostGpus) break;
      ++picture_.nodes_shown;
    }
  }

  /// In one row, so that what hangs on a fabric below hangs free.
  void place_nodes() {
    double x = kMargin;
    for (int node = 0; node < picture_.nodes_shown; ++node) {
      const auto [width, height] = place_node(node, x, top_);
      picture_.nodes[at(node)] = {x + width / 2, top_ + height / 2, width, height, true};
      right_ = x + width;
      bottom_ = std::max(bottom_, top_ + height);
      x = right_ + kGap;
    }
  }

  /// Width and height.
  std::pair<double, double> place_node(int node, double left, double top) {
    const NodeParts& parts = parts_[at(node)];
    const bool row = !parts.crossbars.empty() || parts.gpus.size() < 3;
    double inner = 0;
    for (const auto& layer : parts.below) inner = std::max(inner, kStep * double(layer.size()));
    double y = top + kTitle + kPadding;
    if (row) {
      inner = std::max(inner, kStep * double(parts.gpus.size()));
      for (const int crossbar : parts.crossbars) {
        put_bar(crossbar, left + kPadding, left + kPadding + inner, y + kBar / 2);
        y += kLayer;
      }
      put_row(parts.gpus, left + kPadding, inner, y + kBoxHeight / 2);
      y += kBoxHeight;
    } else if (parts.gpus.size() <= kMostOnCircle) {
      const double radius = std::max(84.0, kStep * double(parts.gpus.size()) / (2 * std::numbers::pi) * 1.25);
      inner = std::max(inner, 2 * radius + kBox);
      put_circle(parts.gpus, left + kPadding + inner / 2, y + radius + kBoxHeight / 2, radius);
      y += 2 * radius + kBoxHeight;
    } else {
      const int columns = columns_of(parts.gpus);
      const int rows = (std::min(int(parts.gpus.size()), kMostGpusOfNode) + columns - 1) / columns;
      inner = std::max(inner, kStep * 1.3 * columns);
      put_grid(parts.gpus, columns, left + kPadding, y);
      y += kLayer * rows - (kLayer - kBoxHeight);
    }
    for (const auto& layer : parts.below) {
      y += kLayer - kBoxHeight;
      put_row(layer, left + kPadding, inner, y + kBoxHeight / 2);
      y += kBoxHeight;
    }
    return {inner + 2 * kPadding, y + kPadding - top};
  }

  void put(int vertex, double x, double y, double width, double height) {
    picture_.vertices[at(vertex)] = {x, y, width, height, true};
  }
  void put_bar(int vertex, double left, double right, double y) {
    put(vertex, (left + right) / 2, y, right - left, kBar);
  }
  void put_row(const std::vector<int>& row, double left, double width, double y) {
    const double step = width / double(std::max<std::size_t>(row.size(), 1));
    for (std::size_t i = 0; i < row.size(); ++i)
      put(row[i], left + step * (double(i) + 0.5), y, std::min(kBox * 1.6, step * 0.86), kBoxHeight);
  }
  void put_circle(const std::vector<int>& gpus, double x, double y, double radius) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const double angle = 2 * std::numbers::pi * (double(i) + 0.5) / double(gpus.size()) - std::numbers::pi / 2;
      put(gpus[i], x + radius * std::sin(angle + std::numbers::pi / 2),
          y - radius * std::cos(angle + std::numbers::pi / 2), kBox, kBoxHeight);
    }
  }
  void put_grid(const std::vector<int>& gpus, int columns, double left, double top) {
    const std::size_t shown = std::min<std::size_t>(gpus.size(), kMostGpusOfNode);
    for (std::size_t i = 0; i < shown; ++i)
      put(gpus[i], left + kStep * 1.3 * (double(i % at(columns)) + 0.5),
          top + kLayer * double(i / at(columns)) + kBoxHeight / 2, kBox, kBoxHeight);
  }

  /// GPUs of a grid are numbered row by row, so the length of a row shows in which numbers are linked.
  int columns_of(const std::vector<int>& gpus) const {
    const double ideal = std::sqrt(double(gpus.size()));
    int best = static_cast<int>(std::ceil(ideal));
    double least = HUGE_VAL;
    for (const int link : topology_.out_links(gpus.front())) {
      const int stride = topology_.vertex(topology_.link(link).to).rank - topology_.vertex(gpus.front()).rank;
      if (stride < 2 || gpus.size() % at(stride) != 0) continue;
      if (const double off = std::abs(std::log(stride / ideal)); off < least && stride < 40) {
        least = off;
        best = stride;
      }
    }
    return best;
  }

  struct SwitchBar {
    int vertex;
    double left, right;

    bool overlaps(const SwitchBar& other) const { return left < other.right + kBarGap && other.left < right + kBarGap; }
  };

  /// Switches of no node, layer by layer: first those that nodes hang on, then those that these hang on.
  void place_shared() {
    for (std::vector<SwitchBar> layer = next_layer(); !layer.empty(); layer = next_layer()) {
      const double top = bottom_ + kGap + kBar;
      std::vector<std::vector<SwitchBar>> rows;  // of bars beside each other
      for (const SwitchBar& bar : layer) {
        const auto is_free = [&](const std::vector<SwitchBar>& row) {
          return std::none_of(row.begin(), row.end(), [&](const SwitchBar& other) { return bar.overlaps(other); });
        };
        auto row = std::find_if(rows.begin(), rows.end(), is_free);
        if (row == rows.end()) row = rows.insert(rows.end(), std::vector<SwitchBar>());
        row->push_back(bar);
        bottom_ = top + double(row - rows.begin()) * (kBar + kBarGap);
        put_bar(bar.vertex, bar.left, bar.right, bottom_);
      }
      bottom_ = top + double(rows.size() - 1) * (kBar + kBarGap) + kBar / 2;
    }
  }

  /// Switches without a place that hang on something with one; each as wide as that is.
  std::vector<SwitchBar> next_layer() const {
    std::vector<SwitchBar> layer;
    for (int v = 0; v < topology_.vertex_count(); ++v) {
      if (topology_.vertex(v).node != kSharedNode || picture_.vertices[at(v)].shown) continue;
      SwitchBar bar{v, HUGE_VAL, 0};
      const auto reach = [&](int other) {
        const PictureSpot& spot = picture_.vertices[at(other)];
        if (!spot.shown) return;
        bar.left = std::min(bar.left, spot.left());
        bar.right = std::max(bar.right, spot.right());
      };
      for (const int link : topology_.out_links(v)) reach(topology_.link(link).to);
      for (const int link : topology_.in_links(v)) reach(topology_.link(link).from);
      if (bar.left < bar.right) layer.push_back(bar);
    }
    return layer;
  }

  const Topology& topology_;
  double top_;
  TopologyPicture picture_;
  std::vector<NodeParts> parts_;
  double right_ = 0, bottom_ = 0;
};

}  // namespace

TopologyPicture lay_out(const Topology& topology, double top) { return TopologyLayout(topology, top).run(); }

}  // namespace tutti
