#include "bound/certificate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "documents/json_value.hpp"
#include "topology/number_set.hpp"

namespace tutti {
namespace {

constexpr std::string_view kFormat = "tutti bound 1";
constexpr int kMostVertices = 1 << 22;
constexpr int kDepth = 6;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string evidence_text(const Cut& cut) {
  std::string text = fmt::format("\"cut\": \"{}\"", show_numbers(cut.inside));
  if (cut.from != kAnyRank) text += fmt::format(", \"from\": {}", cut.from);
  if (cut.to != kAnyRank) text += fmt::format(", \"to\": {}", cut.to);
  return text;
}

std::string evidence_text(const Partition& partition) {
  std::vector<std::string> parts;
  for (const auto& part : partition.parts) parts.push_back('"' + show_numbers(part) + '"');
  return fmt::format("\"partition\": [{}], \"messages\": \"{}\"", fmt::join(parts, ", "),
                     partition.sent ? "sent" : "received");
}

std::string evidence_text(const Lengths& lengths) {
  return fmt::format("\"lengths\": [{}]", fmt::join(lengths.of_links, ", "));
}

std::vector<int> vertices(const JsonValue& value) {
  auto parsed = parse_numbers(value.text(), kMostVertices);
  if (!parsed) value.fail(parsed.error().message);
  return std::move(*parsed);
}

int rank_or_any(const JsonValue& object, std::string_view key) {
  return object.has(key) ? static_cast<int>(object.at(key).integer(0, kMostVertices)) : kAnyRank;
}

Evidence read_evidence(const JsonValue& value) {
  if (value.has("cut")) {
    value.expect_keys({"cut", "from", "to"});
    return Cut{vertices(value.at("cut")), rank_or_any(value, "from"), rank_or_any(value, "to")};
  }
  if (value.has("partition")) {
    value.expect_keys({"partition", "messages"});
    Partition partition;
    for (const JsonValue& part : value.at("partition").elements()) partition.parts.push_back(vertices(part));
    const JsonValue messages = value.at("messages");
    partition.sent = messages.text() == "sent";
    if (!partition.sent && messages.text() != "received")
      messages.fail(fmt::format("{} is neither sent nor received", messages.shown()));
    return partition;
  }
  value.expect_keys({"lengths"});
  Lengths lengths;
  for (const JsonValue& length : value.at("lengths").elements())
    lengths.of_links.push_back(length.integer(0, kLongest));
  return lengths;
}

Collective read_collective(const JsonValue& value) {
  for (int i = 0; i < kCollectives; ++i)
    if (const auto collective = static_cast<Collective>(i); name_of(collective) == value.text()) return collective;
  value.fail(fmt::format("{} is no collective", value.shown()));
}

Rational read_rational(const JsonValue& value) {
  try {
    return Rational::parse(value.text());
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    value.fail(error.what());
  }
}

Certificate read_certificate(const JsonValue& document) {
  document.expect_keys({"format", "topology", "collective", "ranks", "root", "latency", "rate", "evidence"});
  if (const JsonValue format = document.at("format"); format.text() != kFormat)
    format.fail(fmt::format("{} is not '{}'", format.shown(), kFormat));
  Certificate certificate;
  certificate.topology = document.at("topology").text();
  certificate.collective = read_collective(document.at("collective"));
  certificate.ranks = static_cast<int>(document.at("ranks").integer(1, kMostVertices));
  certificate.root = static_cast<int>(document.at("root").integer(0, certificate.ranks - 1));
  certificate.latency = read_rational(document.at("latency"));
  certificate.rate = read_rational(document.at("rate"));
  certificate.evidence = read_evidence(document.at("evidence"));
  return certificate;
}

}  // namespace

bool has_bounds(Collective collective) {
  return collective != Collective::barrier && collective != Collective::point_to_point;
}

std::string certificate_to_json(const Certificate& certificate) {
  const std::string evidence = std::visit([](const auto& kind) { return evidence_text(kind); }, certificate.evidence);
  return fmt::format(
      "{{\"format\": \"{}\", \"topology\": {}, \"collective\": \"{}\", \"ranks\": {}, \"root\": {},\n"
      " \"latency\": \"{}\", \"rate\": \"{}\",\n \"evidence\": {{{}}}}}\n",
      kFormat, quoted(certificate.topology), name_of(certificate.collective), certificate.ranks, certificate.root,
      certificate.latency.to_string(), certificate.rate.to_string(), evidence);
}

Result<Certificate> certificate_from_json(std::string_view text) {
  try {
    const JsonDocument document(text, kDepth);
    return read_certificate(JsonValue(document));
  } catch (const InputError& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace tutti
