#include "diagnosis/telemetry/telemetry_json.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "diagnosis/telemetry/telemetry_check.hpp"
#include "diagnosis/telemetry/telemetry_fields.hpp"
#include "documents/json_value.hpp"

namespace tutti::diagnosis {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepth = 8;

// Words for values of enumerations; the program's own are taken from where they are defined.
constexpr std::string_view kProcessStates[] = {"running", "stopped", "killed", "ended", "unreachable", "elsewhere"};
constexpr std::string_view kMemberStates[] = {"joined", "broken", "left"};
constexpr std::string_view kLaneStates[] = {"healthy", "suspect", "down"};
constexpr int kOperators = static_cast<int>(Operator::user) + 1;

std::string_view word_of(ProcessState state) { return kProcessStates[static_cast<std::size_t>(state)]; }
std::string_view word_of(MemberFacts::State state) { return kMemberStates[static_cast<std::size_t>(state)]; }
std::string_view word_of(LaneFacts::State state) { return kLaneStates[static_cast<std::size_t>(state)]; }
std::string_view word_of(Collective collective) { return tutti::name_of(collective); }
std::string_view word_of(DataType type) { return tutti::name_of(type); }
std::string_view word_of(Operator op) { return tutti::name_of(op); }
std::string_view word_of(FaultClass fault) { return name_of(fault); }

constexpr int count_of(ProcessState) { return std::size(kProcessStates); }
constexpr int count_of(MemberFacts::State) { return std::size(kMemberStates); }
constexpr int count_of(LaneFacts::State) { return std::size(kLaneStates); }
constexpr int count_of(Collective) { return kCollectives; }
constexpr int count_of(DataType) { return kDataTypes; }
constexpr int count_of(Operator) { return kOperators; }
constexpr int count_of(FaultClass) { return kFaultClasses; }

/// Ids are of 64 random bits, which JSON's numbers do not hold.
bool is_id(std::string_view name) { return name == "id" || name == "job"; }
std::string hex(std::uint64_t id) { return fmt::format("{:016x}", id); }

template <typename T>
Json json_of_object(const T& object);

template <typename T>
Json json_of_value(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return word_of(value);
  else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
    return value;
  else
    return json_of_object(value);
}

template <typename T>
Json json_of_value(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(json_of_value(value));
  return list;
}

template <typename T>
bool is_left_out(const T& value, const T& usual) {
  if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
    return value == usual;
  else
    return false;
}
template <typename T>
bool is_left_out(const std::vector<T>& value, const std::vector<T>&) {
  return value.empty();
}

template <typename T>
Json json_of_object(const T& object) {
  const T usual{};
  Json json = Json::object();
  fields_of(
      [&](const char* name, auto member) {
        const auto& value = object.*member;
        if (is_left_out(value, usual.*member)) return;
        json[name] = json_of_value(value);
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::uint64_t>)
          if (is_id(name)) json[name] = hex(value);
      },
      usual);
  return json;
}

template <typename T>
void shorten_value(std::vector<T>& values);

template <typename T>
void shorten_value(T& value) {
  constexpr double kLarge = 1e8;  // seconds, or bytes per second
  if constexpr (std::is_floating_point_v<T>)
    value = std::abs(value) < kLarge ? std::round(1e6 * value) / 1e6 : std::round(value);
  else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>)
    fields_of([&](const char*, auto member) { shorten_value(value.*member); }, T{});
}

template <typename T>
void shorten_value(std::vector<T>& values) {
  for (T& value : values) shorten_value(value);
}

template <typename T>
void read_object(const JsonValue& json, T& object);

void read(const JsonValue& json, bool& value) { value = json.flag(); }
void read(const JsonValue& json, std::string& value) { value = json.text(); }
void read(const JsonValue& json, double& value) {
  value = std::strtod(json.decimal().c_str(), nullptr);
  if (!std::isfinite(value)) json.fail("is too large");
}

template <typename T>
void read(const JsonValue& json, T& value) {
  if constexpr (std::is_enum_v<T>) {
    for (int i = 0; i < count_of(T{}); ++i)
      if (word_of(static_cast<T>(i)) == json.text()) {
        value = static_cast<T>(i);
        return;
      }
    json.fail(fmt::format("{} is no word for this", json.shown()));
  } else if constexpr (std::is_integral_v<T>) {
    // Counts beyond 2^63 do not come up.
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    const bool fits = sizeof(T) < sizeof(std::int64_t);
    value = static_cast<T>(json.integer(std::is_signed_v<T> ? std::int64_t{std::numeric_limits<T>::min()} : 0,
                                        fits ? static_cast<std::int64_t>(std::numeric_limits<T>::max()) : kMost));
  } else {
    read_object(json, value);
  }
}

template <typename T>
void read(const JsonValue& json, std::vector<T>& values) {
  for (const JsonValue& element : json.elements()) read(element, values.emplace_back());
}

void read_id(const JsonValue& json, std::uint64_t& id) {
  const std::string& text = json.text();
  const bool is_hex = text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex) json.fail(fmt::format("{} is no id of 16 digits", json.shown()));
  id = std::strtoull(text.c_str(), nullptr, 16);
}

/// `names`: keys that are allowed beside the fields.
template <typename T>
void read_fields(const JsonValue& json, T& object, std::vector<std::string> names) {
  fields_of(
      [&](const char* name, auto member) {
        names.emplace_back(name);
        if (!json.has(name)) return;
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(object.*member)>, std::uint64_t>)
          if (is_id(name)) return read_id(json.at(name), object.*member);
        read(json.at(name), object.*member);
      },
      T{});
  json.expect_keys(names);
}

template <typename T>
void read_object(const JsonValue& json, T& object) {
  read_fields(json, object, {});
}

}  // namespace

std::string_view name_of(ProcessState state) { return word_of(state); }

void shorten(Telemetry& telemetry) { shorten_value(telemetry); }

std::string line_of(const Telemetry& telemetry) {
  Json json{{"telemetry", kTelemetryVersion}};
  json.update(json_of_object(telemetry));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Telemetry> parse_telemetry(std::string_view line) {
  try {
    const JsonDocument document(line, kDepth);
    const JsonValue root(document);
    const std::int64_t version = root.at("telemetry").integer(0, std::numeric_limits<int>::max());
    if (version != kTelemetryVersion)
      root.at("telemetry").fail(fmt::format("version {} is not known; expected {}", version, kTelemetryVersion));
    Telemetry telemetry;
    read_fields(root, telemetry, {"telemetry"});
    if (Status whole = check_telemetry(telemetry); !whole) return tl::unexpected(whole.error());
    return telemetry;
  } catch (const InputError& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

nlohmann::ordered_json json_of(const Verdict& verdict, double realtime_offset) {
  Json suspects = Json::array(), evidence = Json::object(), communicators = Json::array();
  for (const Suspect& each : verdict.suspects) {
    const auto number_or_null = [](int number) { return number < 0 ? Json(nullptr) : Json(number); };
    suspects.push_back({{"rank", number_or_null(each.rank)},
                        {"pid", each.pid == 0 ? Json(nullptr) : Json(each.pid)},
                        {"host", each.host},
                        {"path", number_or_null(each.path)},
                        {"peer", number_or_null(each.peer)},
                        {"position", each.position},
                        {"confidence", each.confidence}});
  }
  for (const Evidence& each : verdict.evidence) evidence[each.name] = each.value;
  for (const std::uint64_t id : verdict.communicators) communicators.push_back(hex(id));
  return {{"class", name_of(verdict.fault)},
          {"confidence", verdict.confidence},
          {"suspects", suspects},
          {"evidence", evidence},
          {"since", verdict.since == 0 ? Json(nullptr) : Json(verdict.since + realtime_offset)},
          {"communicators", communicators},
          {"operation", verdict.place},
          {"text", verdict.text}};
}

nlohmann::ordered_json json_of(const VerdictChange& change, const Telemetry& telemetry) {
  return {{"time", change.at + telemetry.realtime_offset},
          {"event", change.began ? "began" : "ended"},
          {"job", hex(telemetry.job)},
          {"seconds", change.lasted},
          {"verdict", json_of(change.verdict, telemetry.realtime_offset)}};
}

}  // namespace tutti::diagnosis
