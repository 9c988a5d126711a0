#include "documents/json_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tutti {
namespace {

/// Steps through a text value by value; wherever it is not as expected, it stands still or at the end.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) { skip_space(); }

  std::size_t at() const { return at_; }
  bool ended() const { return at_ >= text_.size(); }
  bool sees(char c) const { return !ended() && text_[at_] == c; }

  void step() {
    ++at_;
    skip_space();
  }

  bool take(char c) {
    const bool taken = sees(c);
    if (taken) step();
    return taken;
  }

  /// The text between the quotes, as it stands there.
  std::string_view take_string() {
    const std::size_t start = ++at_;
    while (!ended() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    const std::string_view string = text_.substr(start, std::min(at_, text_.size()) - start);
    step();
    return string;
  }

  /// Up to the comma or the bracket behind the value.
  void skip_value() {
    for (int open = 0; !ended() && (open > 0 || !(sees(',') || sees(']') || sees('}')));) {
      if (sees('{') || sees('[')) ++open;
      if (sees('}') || sees(']')) --open;
      if (sees('"'))
        take_string();
      else
        step();
    }
  }

 private:
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Goes to the element with the index that `path` begins with.
bool enter_list(Scanner& scanner, std::string_view& path) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(path.data() + 1, path.data() + path.size(), index);
  if (error != std::errc() || end == path.data() + path.size() || !scanner.take('[')) return false;
  path.remove_prefix(static_cast<std::size_t>(end + 1 - path.data()));
  for (; index > 0; --index) {
    scanner.skip_value();
    if (!scanner.take(',')) return false;
  }
  return !scanner.sees(']');
}

/// Goes to the member with the key that `path` begins with. Keys may have dots in them.
bool enter_object(Scanner& scanner, std::string_view& path) {
  if (path.front() == '.') path.remove_prefix(1);
  if (!scanner.take('{')) return false;
  while (scanner.sees('"')) {
    const std::string_view key = scanner.take_string();
    if (!scanner.take(':')) return false;
    const bool begins = path.substr(0, key.size()) == key;
    if (begins && (path.size() == key.size() || path[key.size()] == '.' || path[key.size()] == '[')) {
      path.remove_prefix(key.size());
      return true;
    }
    scanner.skip_value();
    if (!scanner.take(',')) return false;
  }
  return false;
}

}  // namespace

int line_at(std::string_view text, std::size_t byte) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n'));
}

int line_of(std::string_view text, std::string_view path) {
  Scanner scanner(text);
  while (!path.empty())
    if (!(path.front() == '[' ? enter_list(scanner, path) : enter_object(scanner, path))) return 0;
  return scanner.ended() ? 0 : line_at(text, scanner.at());
}

int line_of_key(std::string_view text, std::size_t before) {
  Scanner scanner(text);
  while (!scanner.ended()) {
    const std::size_t start = scanner.at();
    if (!scanner.sees('"')) {
      scanner.step();
      continue;
    }
    scanner.take_string();
    if (scanner.sees(':') && before-- == 0) return line_at(text, start);
  }
  return 0;
}

std::string place_in(std::string_view text, const std::string& path) {
  const int line = line_of(text, path);
  if (line == 0) return path;
  return fmt::format("line {}{}{}", line, path.empty() ? "" : ": ", path);
}

}  // namespace tutti
