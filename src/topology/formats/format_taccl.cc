#include "topology/formats/format_taccl.hpp"

#include <fmt/format.h>

#include "documents/json_value.hpp"
#include "topology/quantity.hpp"

namespace tutti {
namespace {

constexpr int kMostGpus = 1 << 10;
constexpr int kDepth = 8;
constexpr std::int64_t kStandardChunk = 1 << 20;

/// Classes of links in NDv2's node, [to][from]: 1 double, 2 single, 0 none. The same both ways.
constexpr int kNdv2Classes[8][8] = {{0, 1, 2, 2, 1, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {2, 2, 0, 1, 0, 0, 1, 0},
                                    {2, 1, 1, 0, 0, 0, 0, 2}, {1, 0, 0, 0, 0, 1, 2, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                    {0, 0, 1, 0, 2, 2, 0, 1}, {0, 0, 0, 2, 2, 1, 1, 0}};

class ProfileReader {
 public:
  explicit ProfileReader(const JsonValue& document) : document_(document) {
    document.expect_keys({"name", "gpus_per_node", "nics_per_node", "alpha", "node_betas_list", "node_invbws_list",
                          "remote_alpha", "remote_beta", "remote_invbw", "links", "betas", "invbws", "chunk_bytes",
                          "time_unit"});
    if (document.has("chunk_bytes")) chunk_ = document.at("chunk_bytes").integer(1, std::int64_t{1} << 40);
    if (document.has("time_unit")) {
      const auto unit = parse_latency(document.at("time_unit").text());
      if (!unit || unit->is_zero()) document.at("time_unit").fail("is no time; expected e.g. '100 ns'");
      unit_ = *unit;
    }
  }

  NodeProfile read() const {
    NodeProfile profile;
    if (document_.has("name")) profile.name = document_.at("name").text();
    profile.gpus = static_cast<int>(document_.at("gpus_per_node").integer(1, kMostGpus));
    if (document_.has("nics_per_node"))
      profile.nics = static_cast<int>(document_.at("nics_per_node").integer(1, kMostGpus));
    profile.alpha = time(document_.at("alpha"));
    if (document_.has("remote_alpha")) profile.remote_alpha = time(document_.at("remote_alpha"));
    if (document_.has("remote_beta")) profile.remote_bandwidth = bandwidth(document_.at("remote_beta"));
    profile.chunk_bytes = chunk_;
    const auto count = static_cast<std::size_t>(profile.gpus);
    profile.bandwidth.assign(count, std::vector<Rational>(count));
    if (document_.has("links"))
      read_matrices(profile);
    else
      read_classes(profile);
    return profile;
  }

 private:
  Rational time(const JsonValue& value) const {
    try {
      return Rational::parse(value.decimal()) * unit_;
    } catch (const std::exception& error) {
      value.fail(error.what());
    }
  }

  /// From the time a chunk takes; in whole bytes per second, or sums of such fractions would soon have no common
  /// denominator that fits.
  Rational bandwidth(const JsonValue& beta) const {
    const Rational seconds = time(beta);
    if (seconds.is_zero()) beta.fail("is 0: a link that takes no time would have no end of bandwidth");
    const Rational exact = Rational(chunk_) / seconds;
    const std::int64_t whole = exact.numerator() / exact.denominator();
    if (whole == 0) beta.fail("leaves less than a byte per second");
    return whole;
  }

  void read_classes(NodeProfile& profile) const {
    const JsonValue list = document_.at("node_betas_list");
    const auto betas = list.elements();
    if (betas.size() == 2 && profile.gpus != 8)
      list.fail(fmt::format("has two entries, which only NDv2's 8 GPUs have, not {}; give \"links\" and \"betas\"",
                            profile.gpus));
    if (betas.empty() || betas.size() > 2)
      list.fail(fmt::format("has {} entries; expected one (all GPUs linked) or two (NDv2)", betas.size()));
    std::vector<Rational> classes;
    for (const JsonValue& beta : betas) classes.push_back(bandwidth(beta));
    for (int from = 0; from < profile.gpus; ++from)
      for (int to = 0; to < profile.gpus; ++to) {
        const int link_class = betas.size() == 2 ? kNdv2Classes[to][from] : int(from != to);
        if (link_class > 0)
          profile.bandwidth[std::size_t(from)][std::size_t(to)] = classes[std::size_t(link_class) - 1];
      }
  }

  void read_matrices(NodeProfile& profile) const {
    const auto links = square(document_.at("links"), profile.gpus), betas = square(document_.at("betas"), profile.gpus);
    for (std::size_t to = 0; to < links.size(); ++to)
      for (std::size_t from = 0; from < links.size(); ++from) {
        const std::int64_t count = links[to][from].integer(0, 1 << 16);
        if (count > 0 && to == from) links[to][from].fail("links a GPU with itself");
        if (count > 0) profile.bandwidth[from][to] = bandwidth(betas[to][from]) * count;
      }
  }

  static std::vector<std::vector<JsonValue>> square(const JsonValue& value, int size) {
    std::vector<std::vector<JsonValue>> rows;
    for (const JsonValue& row : value.elements()) {
      rows.push_back(row.elements());
      if (static_cast<int>(rows.back().size()) != size)
        row.fail(fmt::format("has {} entries for {} GPUs", rows.back().size(), size));
    }
    if (static_cast<int>(rows.size()) != size) value.fail(fmt::format("has {} rows for {} GPUs", rows.size(), size));
    return rows;
  }

  const JsonValue& document_;
  std::int64_t chunk_ = kStandardChunk;
  Rational unit_{1, 1'000'000};
};

}  // namespace

Result<NodeProfile> profile_from_taccl(std::string_view text) {
  try {
    const JsonDocument document(text, kDepth);
    return ProfileReader(JsonValue(document)).read();
  } catch (const std::exception& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

Result<Topology> topology_of(const NodeProfile& profile) {
  auto sketched = apply_sketch(profile, Sketch());
  if (!sketched) return tl::unexpected(sketched.error());
  return std::move(sketched->topology);
}

}  // namespace tutti
