#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "documents/json_value.hpp"
#include "topology/builtin/host.hpp"
#include "topology/formats/format_nccl.hpp"

namespace tutti {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;
constexpr int kMostNvlinks = 18;  // of any GPU so far
constexpr int kMostNodes = 1 << 14;

/// What the matrix does not say.
const Rational kNvlink = 25 * kGigabyte;
const Rational kPcie = 24 * kGigabyte;        // PCIe 4 x16, as NCCL counts
const Rational kProcessors = 16 * kGigabyte;  // between NUMA nodes
const Rational kNic = 25 * kGigabyte;         // 200 Gb/s

struct Matrix {
  std::vector<std::string> devices;             // GPUs and NICs, as the header names them
  std::vector<std::vector<std::string>> cells;  // [row][column]
  std::vector<std::size_t> lines;               // [row], for errors
};

bool is_gpu(const std::string& name) { return name.rfind("GPU", 0) == 0; }

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The header, then one row for each device; "CPU Affinity" and what follows it are passed over.
Matrix read_matrix(std::string_view text) {
  std::istringstream stream{std::string(text)};
  Matrix matrix;
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    auto words = words_of(line);
    if (words.empty() || words.front()[0] == '#') continue;
    if (matrix.devices.empty()) {
      if (!is_gpu(words.front())) continue;
      const auto end = std::find(words.begin(), words.end(), "CPU");
      matrix.devices.assign(words.begin(), end);
      continue;
    }
    const std::size_t row = matrix.cells.size();
    if (row == matrix.devices.size() || words.front() != matrix.devices[row]) break;
    if (words.size() < matrix.devices.size() + 1)
      throw InputError(fmt::format("line {}: {} has {} entries for {} devices", number, words.front(), words.size() - 1,
                                   matrix.devices.size()));
    matrix.cells.emplace_back(words.begin() + 1, words.begin() + 1 + std::ssize(matrix.devices));
    matrix.lines.push_back(number);
  }
  if (matrix.devices.empty())
    throw InputError("no line of GPU0 GPU1 ...: this is not the matrix of nvidia-smi topo -m");
  if (matrix.cells.size() != matrix.devices.size())
    throw InputError(fmt::format("the matrix has {} rows for {} devices", matrix.cells.size(), matrix.devices.size()));
  return matrix;
}

std::optional<int> nvlinks_in(const std::string& cell) {
  if (cell.rfind("NV", 0) != 0) return std::nullopt;
  int count = 0;
  const auto [end, error] = std::from_chars(cell.data() + 2, cell.data() + cell.size(), count);
  if (error != std::errc() || end != cell.data() + cell.size() || count < 1) return std::nullopt;
  return count;
}

class MatrixReader {
 public:
  explicit MatrixReader(Matrix matrix) : matrix_(std::move(matrix)), size_(matrix_.devices.size()) {}

  HostDescription read() {
    check_cells();
    const std::vector<std::size_t> bridge = groups({"PIX", "PXB"});
    const std::vector<std::size_t> numa = groups({"PIX", "PXB", "PHB", "NODE"});
    std::map<std::size_t, int> numa_index, bridge_index;
    for (std::size_t i = 0; i < size_; ++i) {
      if (const auto [at, fresh] = numa_index.emplace(numa[i], int(host_.bridges.size())); fresh)
        host_.bridges.push_back({fmt::format("numa{}", numa_index.size() - 1), HostDescription::kRoot, kProcessors});
      if (const auto [at, fresh] = bridge_index.emplace(bridge[i], int(host_.bridges.size())); fresh)
        host_.bridges.push_back({fmt::format("pcie{}", bridge_index.size() - 1), numa_index[numa[i]], kPcie});
      add_device(i, bridge_index[bridge[i]]);
    }
    add_nvlinks();
    return std::move(host_);
  }

 private:
  void check_cells() const {
    static const std::vector<std::string> kKnown = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};
    for (std::size_t row = 0; row < size_; ++row)
      for (std::size_t column = 0; column < size_; ++column) {
        const std::string& cell = matrix_.cells[row][column];
        const bool known = std::find(kKnown.begin(), kKnown.end(), cell) != kKnown.end() || nvlinks_in(cell);
        if (!known || (cell == "X") != (row == column))
          throw InputError(fmt::format("line {}: '{}' between {} and {}; expected X, NV#, PIX, PXB, PHB, NODE or SYS",
                                       matrix_.lines[row], cell, matrix_.devices[row], matrix_.devices[column]));
      }
  }

  /// [device] = the first device it is joined with by any of `relations`.
  std::vector<std::size_t> groups(const std::vector<std::string>& relations) const {
    std::vector<std::size_t> group(size_);
    std::iota(group.begin(), group.end(), 0);
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (std::find(relations.begin(), relations.end(), matrix_.cells[i][j]) != relations.end())
          std::replace(group.begin(), group.end(), std::max(group[i], group[j]), std::min(group[i], group[j]));
    return group;
  }

  void add_device(std::size_t index, int bridge) {
    if (is_gpu(matrix_.devices[index])) {
      HostDescription::Gpu gpu;
      gpu.name = fmt::format("gpu{}", host_.gpus.size());
      gpu.bridge = bridge;
      gpu.bandwidth = kPcie;
      host_.gpus.push_back(gpu);
      gpus_.push_back(index);
      return;
    }
    HostDescription::Nic nic;
    nic.name = fmt::format("nic{}", host_.nics.size());
    nic.bridge = bridge;
    nic.bandwidth = kPcie;
    nic.network_bandwidth = kNic;
    host_.nics.push_back(nic);
  }

  void add_nvlinks() {
    int least = kMostNvlinks, most = 0;
    for (std::size_t i = 0; i < gpus_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const int count = nvlinks_in(matrix_.cells[gpus_[i]][gpus_[j]]).value_or(0);
        least = std::min(least, count);
        most = std::max(most, count);
        if (count > 0) host_.nvlinks.push_back({int(j), int(i), kNvlink * count});
      }
    const bool crossbar = least == most && most * (int(gpus_.size()) - 1) > kMostNvlinks;
    if (!crossbar) return;
    host_.nvlinks.clear();
    for (HostDescription::Gpu& gpu : host_.gpus) gpu.switch_bandwidth = kNvlink * most;
    host_.switch_skills = {most == kMostNvlinks, most == kMostNvlinks};  // 18 links: H100 or later
  }

  Matrix matrix_;
  std::size_t size_;
  HostDescription host_;
  std::vector<std::size_t> gpus_;  // [rank] = its row
};

}  // namespace

Result<Topology> topology_from_smi_matrix(std::string_view text, int nodes) {
  try {
    if (nodes < 1 || nodes > kMostNodes) throw InputError(fmt::format("{} nodes; expected 1 to {}", nodes, kMostNodes));
    const HostDescription host = MatrixReader(read_matrix(text)).read();
    if (nodes > 1 && host.nics.empty()) throw InputError(fmt::format("{} nodes, but the matrix has no NIC", nodes));
    Topology topology = make_cluster(host, nodes);
    topology.set_name(fmt::format("nvidia-smi topology x {}", nodes));
    if (Status status = validate(topology); !status) return tl::unexpected(status.error());
    return topology;
  } catch (const std::exception& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace tutti
