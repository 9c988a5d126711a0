// A JSON value that knows where in the file it stands, so that every error names its place.
// Throws InputError; the functions that parse files catch it and return its text.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class JsonDocument;

class JsonValue {
 public:
  /// The document's whole value; the document outlives it.
  explicit JsonValue(const JsonDocument& document);

  /// "line 7: links[3].bandwidth: is 0"
  [[noreturn]] void fail(const std::string& what) const;
  /// "ranks[2].workers[0]"
  std::string path() const;
  /// The value as text, shortened.
  std::string shown() const;

  bool is_object() const { return value_->is_object(); }
  bool is_array() const { return value_->is_array(); }
  bool is_number() const { return value_->is_number(); }
  bool is_text() const { return value_->is_string(); }

  /// Fails unless this is an object whose keys are all among `allowed`.
  void expect_keys(const std::vector<std::string>& allowed) const;
  bool has(std::string_view key) const { return value_->is_object() && value_->find(key) != value_->end(); }
  /// The member; fails where it is missing.
  JsonValue at(std::string_view key) const;
  std::vector<std::pair<std::string, JsonValue>> members() const;
  std::vector<JsonValue> elements() const;

  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  /// A number, whole or not, as the shortest decimal text that reads back as it; for exact arithmetic on decimals.
  std::string decimal() const;
  const std::string& text() const;
  bool flag() const;

 private:
  struct PathElement {
    std::shared_ptr<const PathElement> before;
    std::string_view key;  // the document's own text; empty: an element of a list
    std::size_t index;
  };
  JsonValue(std::string_view document, const nlohmann::json& value, std::shared_ptr<const PathElement> path)
      : document_(document), value_(&value), path_(std::move(path)) {}
  JsonValue member(std::string_view key, const nlohmann::json& value) const;

  std::string_view document_;  // its text
  const nlohmann::json* value_;
  std::shared_ptr<const PathElement> path_;
};

/// A text and what it says. Strict: no comments, no key twice in an object, at most `depth` levels.
class JsonDocument {
 public:
  JsonDocument(std::string_view text, int depth);

 private:
  friend JsonValue;
  std::string_view text_;  // outlives this
  nlohmann::json value_;
};

}  // namespace tutti
