#include "documents/json_value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "documents/json_place.hpp"

namespace tutti {

using nlohmann::json;

JsonValue::JsonValue(const JsonDocument& document) : document_(document.text_), value_(&document.value_) {}

std::string JsonValue::path() const {
  std::string path;
  for (const PathElement* step = path_.get(); step != nullptr; step = step->before.get()) {
    const std::string own = step->key.empty() ? fmt::format("[{}]", step->index) : std::string(step->key);
    const bool dot = !path.empty() && path.front() != '[';
    path = own + (dot ? "." : "") + path;
  }
  return path;
}

std::string JsonValue::shown() const {
  constexpr std::size_t kLongest = 40;
  std::string text = value_->dump(-1, ' ', false, json::error_handler_t::replace);
  if (value_->is_string()) text = fmt::format("'{}'", text.substr(1, text.size() - 2));
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

void JsonValue::fail(const std::string& what) const {
  throw InputError(fmt::format("{}: {}", place_in(document_, path()), what));
}

void JsonValue::expect_keys(const std::vector<std::string>& allowed) const {
  if (!value_->is_object()) fail(fmt::format("{} is no object", shown()));
  for (const auto& [key, value] : value_->items())
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
      member(key, value).fail(fmt::format("unknown key; expected {}", fmt::join(allowed, ", ")));
}

JsonValue JsonValue::member(std::string_view key, const json& value) const {
  return {document_, value, std::make_shared<const PathElement>(PathElement{path_, key, 0})};
}

JsonValue JsonValue::at(std::string_view key) const {
  if (!value_->is_object()) fail(fmt::format("{} is no object", shown()));
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("'{}' is missing", key));
  return member(found.key(), *found);
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  if (!value_->is_object()) fail(fmt::format("{} is no object", shown()));
  std::vector<std::pair<std::string, JsonValue>> members;
  for (auto at = value_->begin(); at != value_->end(); ++at) members.emplace_back(at.key(), member(at.key(), *at));
  return members;
}

std::vector<JsonValue> JsonValue::elements() const {
  if (!value_->is_array()) fail(fmt::format("{} is no list", shown()));
  std::vector<JsonValue> elements;
  elements.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    elements.push_back({document_, (*value_)[i], std::make_shared<const PathElement>(PathElement{path_, {}, i})});
  return elements;
}

std::int64_t JsonValue::integer(std::int64_t least, std::int64_t most) const {
  if (!value_->is_number_integer()) fail(fmt::format("{} is no whole number", shown()));
  const bool too_large = value_->is_number_unsigned() &&
                         value_->get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max());
  const std::int64_t number = too_large ? 0 : value_->get<std::int64_t>();
  if (too_large || number < least || number > most)
    fail(fmt::format("{} is out of range; expected {} to {}", shown(), least, most));
  return number;
}

std::string JsonValue::decimal() const {
  if (!value_->is_number()) fail(fmt::format("{} is no number", shown()));
  return value_->dump();
}

const std::string& JsonValue::text() const {
  if (!value_->is_string()) fail(fmt::format("{} is no text", shown()));
  return value_->get_ref<const std::string&>();
}

bool JsonValue::flag() const {
  if (!value_->is_boolean()) fail(fmt::format("{} is neither true nor false", shown()));
  return value_->get<bool>();
}

namespace {

/// Counts open brackets outside of strings: a parser's memory per level is ours to pay.
void limit_depth(std::string_view text, int depth) {
  int open = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++open > depth)
        throw InputError(fmt::format("line {}: nested deeper than {} levels", line_at(text, i), depth));
    } else if (c == '}' || c == ']') {
      --open;
    }
  }
}

/// Throws InputError where a key stands twice in one object.
json parse_strictly(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::size_t before = 0;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event != json::parse_event_t::key) return true;
    if (const auto& key = parsed.get_ref<const std::string&>(); !keys.back().insert(key).second)
      throw InputError(fmt::format("line {}: key '{}' stands twice in one object", line_of_key(text, before), key));
    ++before;
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ..."
    const std::string_view what = error.what();
    const std::size_t prefix = what.find("] ");
    throw InputError(std::string(prefix == std::string_view::npos ? what : what.substr(prefix + 2)));
  }
}

}  // namespace

JsonDocument::JsonDocument(std::string_view text, int depth) : text_(text) {
  limit_depth(text, depth);
  value_ = parse_strictly(text);
}

}  // namespace tutti
