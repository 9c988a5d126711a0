#include "topology/quantity.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>

namespace tutti {
namespace {

struct Unit {
  std::string_view name;
  Rational worth;
};

constexpr std::int64_t kThousand = 1000;

const std::array<Unit, 4>& latency_units() {
  static const std::array<Unit, 4> kUnits = {
      {{"s", 1}, {"ms", {1, kThousand}}, {"us", {1, 1'000'000}}, {"ns", {1, 1'000'000'000}}}};
  return kUnits;
}

const std::array<Unit, 5>& byte_units() {
  static const std::array<Unit, 5> kUnits = {
      {{"TB/s", 1'000'000'000'000}, {"GB/s", 1'000'000'000}, {"MB/s", 1'000'000}, {"kB/s", kThousand}, {"B/s", 1}}};
  return kUnits;
}

/// "GB/s", "Gb/s", "Gbit/s", "GiB/s": a prefix, bytes or bits, per second.
std::optional<Rational> worth_of_rate(std::string_view unit) {
  constexpr std::string_view kPrefixes = "kMGT";
  Rational worth = 1;
  std::string_view rest = unit;
  if (!rest.empty()) {
    const char first = rest.front() == 'K' ? 'k' : rest.front();
    if (const std::size_t power = kPrefixes.find(first); power != std::string_view::npos) {
      rest.remove_prefix(1);
      const bool binary = !rest.empty() && rest.front() == 'i';
      if (binary) rest.remove_prefix(1);
      for (std::size_t i = 0; i <= power; ++i) worth = worth * (binary ? 1024 : kThousand);
    }
  }
  if (rest == "B/s") return worth;
  if (rest == "b/s" || rest == "bit/s") return worth / 8;
  return std::nullopt;
}

std::optional<Rational> worth_of_time(std::string_view unit) {
  for (const Unit& known : latency_units())
    if (known.name == unit) return known.worth;
  return std::nullopt;
}

using Worth = std::optional<Rational> (*)(std::string_view);

Result<Rational> parse(std::string_view text, Worth worth_of, std::string_view example) {
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' {}; expected e.g. {}", text, why, example));
  };
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return bad("has no unit");
  const auto worth = worth_of(text.substr(text.find_last_of(' ') + 1));
  if (!worth) return bad("has an unknown unit");
  try {
    return Rational::parse(text.substr(0, space)) * *worth;
  } catch (const std::exception& error) {
    return bad(fmt::format("cannot be read: {}", error.what()));
  }
}

Result<Rational> unit(std::string_view text, Worth worth_of, std::string_view example) {
  if (const auto worth = worth_of(text)) return *worth;
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no unit known here; expected e.g. {}", text, example));
}

/// `units` from the largest down.
std::string show(const Rational& value, std::span<const Unit> units) {
  const Unit* chosen = &units.front();
  for (const Unit& candidate : units) {
    chosen = &candidate;
    if (value >= candidate.worth) break;
  }
  if (value.is_zero()) chosen = &units.front();
  return fmt::format("{} {}", (value / chosen->worth).to_string(), chosen->name);
}

}  // namespace

Result<Rational> parse_bandwidth(std::string_view text) { return parse(text, worth_of_rate, "'25 GB/s', '200 Gb/s'"); }
Result<Rational> parse_latency(std::string_view text) { return parse(text, worth_of_time, "'1.3 us', '700 ns'"); }

Result<Rational> bandwidth_unit(std::string_view text) { return unit(text, worth_of_rate, "GB/s, Gb/s, MB/s"); }
Result<Rational> latency_unit(std::string_view text) { return unit(text, worth_of_time, "us, ns, ms, s"); }

std::string show_bandwidth(const Rational& bytes_per_second) { return show(bytes_per_second, byte_units()); }
std::string show_latency(const Rational& seconds) { return show(seconds, latency_units()); }

}  // namespace tutti
