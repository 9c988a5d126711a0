#include "topology/formats/format_nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <pugixml.hpp>

#include "documents/json_value.hpp"
#include "topology/builtin/host.hpp"

namespace tutti {
namespace {

constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr int kMostNodes = 1 << 14;
constexpr int kMostDepth = 32;
constexpr std::int64_t kMegabyte = 1'000'000;

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {
    if (text.size() > kMostText) throw InputError(fmt::format("{} bytes of text; at most {}", text.size(), kMostText));
    const pugi::xml_parse_result parsed = document_.load_buffer(text.data(), text.size());
    if (!parsed) throw InputError(fmt::format("line {}: {}", line_of(parsed.offset), parsed.description()));
  }

  HostDescription read() {
    const pugi::xml_node system = document_.child("system");
    if (!system) throw InputError("no <system>: this is not a topology of NCCL's");
    for (const pugi::xml_node cpu : system.children("cpu")) read_cpu(cpu);
    if (gpus_.empty()) throw InputError("no <gpu> in <system>");
    order_gpus();
    for (const FoundGpu& gpu : gpus_)
      for (const pugi::xml_node link : gpu.element.children("nvlink")) read_nvlink(gpu, link);
    join_pairs();
    return std::move(host_);
  }

 private:
  struct FoundGpu {
    pugi::xml_node element;
    std::string bus;
    std::int64_t order;
    HostDescription::Gpu device;
  };

  std::size_t line_of(std::ptrdiff_t offset) const {
    const auto end = text_.begin() + std::min<std::ptrdiff_t>(offset, std::ssize(text_));
    return static_cast<std::size_t>(std::count(text_.begin(), end, '\n')) + 1;
  }

  [[noreturn]] void fail(const pugi::xml_node& element, const std::string& what) const {
    throw InputError(fmt::format("line {}: <{}>: {}", line_of(element.offset_debug()), element.name(), what));
  }

  std::int64_t integer(const pugi::xml_node& element, const char* name,
                       std::optional<std::int64_t> standard = {}) const {
    const std::string_view text = element.attribute(name).value();
    if (text.empty() && standard) return *standard;
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0)
      fail(element, fmt::format("{}=\"{}\" is no whole number", name, text));
    return number;
  }

  /// "16.0 GT/s PCIe" by 16 lanes; three quarters of the raw rate, as NCCL counts.
  Rational pcie_bandwidth(const pugi::xml_node& pci) const {
    const std::string_view speed = pci.attribute("link_speed").value();
    const std::int64_t width = integer(pci, "link_width", 0);
    // Virtual machines hide both; NCCL then takes PCIe 3 x16.
    if (speed.empty() || width == 0) return 12'000 * kMegabyte;
    try {
      const Rational gigatransfers = Rational::parse(speed.substr(0, speed.find(' ')));
      return gigatransfers * width * (1'000 * kMegabyte) / 8 * Rational(3, 4);
    } catch (const std::exception& error) {
      fail(pci, fmt::format("link_speed=\"{}\": {}", speed, error.what()));
    }
  }

  void read_cpu(const pugi::xml_node& cpu) {
    const int bridge = static_cast<int>(host_.bridges.size());
    // What NCCL takes the links between processors for.
    const bool amd = std::string_view(cpu.attribute("vendor").value()) == "AuthenticAMD";
    host_.bridges.push_back(
        {fmt::format("cpu{}", cpus_++), HostDescription::kRoot, (amd ? 16'000 : 10'000) * kMegabyte});
    read_children(cpu, bridge, 12'000 * kMegabyte, "", 0);
  }

  void read_children(const pugi::xml_node& parent, int bridge, const Rational& bandwidth, const std::string& bus,
                     int depth) {
    if (depth > kMostDepth) fail(parent, fmt::format("nested deeper than {} levels", kMostDepth));
    for (const pugi::xml_node child : parent.children()) {
      const std::string_view name = child.name();
      if (name == "pci") read_pci(child, bridge, depth);
      if (name == "gpu") read_gpu(child, bridge, bandwidth, bus);
      if (name == "nic")
        for (const pugi::xml_node net : child.children("net")) read_net(net, bridge, bandwidth);
    }
  }

  /// A bridge, or what carries one device.
  void read_pci(const pugi::xml_node& pci, int above, int depth) {
    const Rational bandwidth = pcie_bandwidth(pci);
    const std::string bus = pci.attribute("busid").value();
    if (!pci.child("pci")) return read_children(pci, above, bandwidth, bus, depth + 1);
    const int bridge = static_cast<int>(host_.bridges.size());
    host_.bridges.push_back({fmt::format("pci-{}", bus), above, bandwidth});
    read_children(pci, bridge, bandwidth, bus, depth + 1);
  }

  void read_gpu(const pugi::xml_node& gpu, int bridge, const Rational& bandwidth, const std::string& bus) {
    const std::int64_t order = integer(gpu, gpu.attribute("rank") ? "rank" : "dev");
    HostDescription::Gpu device;
    device.bridge = bridge;
    device.bandwidth = bandwidth;
    gpus_.push_back({gpu, bus, order, device});
  }

  void read_net(const pugi::xml_node& net, int bridge, const Rational& bandwidth) {
    const Rational speed = integer(net, "speed") * kMegabyte;
    if (speed.is_zero()) fail(net, "speed=\"0\": a NIC without bandwidth");
    HostDescription::Nic nic;
    nic.name = fmt::format("nic{}", host_.nics.size());
    nic.bridge = bridge;
    nic.bandwidth = bandwidth;
    nic.network_bandwidth = speed / 8;
    host_.nics.push_back(nic);
  }

  void order_gpus() {
    std::stable_sort(gpus_.begin(), gpus_.end(), [](const auto& a, const auto& b) { return a.order < b.order; });
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      gpus_[i].device.name = fmt::format("gpu{}", i);
      host_.gpus.push_back(gpus_[i].device);
      index_[gpus_[i].bus] = i;
    }
  }

  static Rational worth_of_nvlink(std::int64_t generation) {
    if (generation >= 100) return 40'000 * kMegabyte;
    if (generation >= 90) return 20'600 * kMegabyte;
    return (generation >= 70 ? 20'000 : 18'000) * kMegabyte;
  }

  void read_nvlink(const FoundGpu& gpu, const pugi::xml_node& link) {
    const std::int64_t generation = integer(gpu.element, "sm", 70);
    const Rational bandwidth = worth_of_nvlink(generation) * integer(link, "count", 1);
    const std::size_t one = index_[gpu.bus];
    if (std::string_view(link.attribute("tclass").value()) == "0x068000") {
      host_.gpus[one].switch_bandwidth += bandwidth;
      host_.switch_skills = {generation >= 90, generation >= 90};
      return;
    }
    const std::string target = link.attribute("target").value();
    const auto other = index_.find(target);
    if (other == index_.end()) fail(link, fmt::format("target=\"{}\" is no GPU of this file", target));
    pairs_[std::minmax(one, other->second)] = bandwidth;  // both ends name the link
  }

  void join_pairs() {
    for (const auto& [pair, bandwidth] : pairs_)
      host_.nvlinks.push_back({static_cast<int>(pair.first), static_cast<int>(pair.second), bandwidth});
  }

  std::string_view text_;
  pugi::xml_document document_;
  HostDescription host_;
  int cpus_ = 0;
  std::vector<FoundGpu> gpus_;
  std::map<std::string, std::size_t> index_;  // by bus
  std::map<std::pair<std::size_t, std::size_t>, Rational> pairs_;
};

}  // namespace

Result<Topology> topology_from_nccl_xml(std::string_view text, int nodes) {
  try {
    if (nodes < 1 || nodes > kMostNodes) throw InputError(fmt::format("{} nodes; expected 1 to {}", nodes, kMostNodes));
    const HostDescription host = XmlReader(text).read();
    if (nodes > 1 && host.nics.empty()) throw InputError(fmt::format("{} nodes, but the host has no <net>", nodes));
    Topology topology = make_cluster(host, nodes);
    topology.set_name(fmt::format("NCCL topology x {}", nodes));
    if (Status status = validate(topology); !status) return tl::unexpected(status.error());
    return topology;
  } catch (const std::exception& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace tutti
