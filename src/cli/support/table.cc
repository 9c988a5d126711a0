#include "cli/support/table.hpp"

#include <algorithm>

namespace tutti::cli {
namespace {

/// Bytes of the escape sequence (ESC [ ... letter) that begins here; 0: none does.
std::size_t escape_at(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "\x1b[") return 0;
  std::size_t end = at + 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  return std::min(end + 1, text.size()) - at;
}

bool begins_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

}  // namespace

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t escape = escape_at(text, at);
    if (escape == 0 && begins_letter(text[at])) ++width;
    at += std::max<std::size_t>(escape, 1);
  }
  return width;
}

std::string clipped(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string(text);
  std::size_t used = 0;
  std::size_t at = 0;
  bool colored = false;
  while (at < text.size()) {
    const std::size_t escape = escape_at(text, at);
    if (escape == 0 && begins_letter(text[at]) && used++ == width) break;
    colored = colored || escape != 0;
    at += std::max<std::size_t>(escape, 1);
  }
  return std::string(text.substr(0, at)) + (colored ? "\x1b[0m" : "");
}

void Table::add(std::vector<std::string> cells, std::optional<Color> color) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), color, {}});
}

void Table::below(std::string text) {
  if (!text.empty()) rows_.back().below.push_back(std::move(text));
}

std::string Table::line(const Row& row, const std::vector<std::size_t>& widths) const {
  std::string text;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (widths[i] == 0) continue;
    if (!text.empty()) text += "  ";
    const std::string padding(widths[i] - width_of(row.cells[i]), ' ');
    text += columns_[i].right ? padding + row.cells[i] : row.cells[i] + padding;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<std::string> Table::lines(const std::string& indent, bool color) const {
  if (rows_.empty()) return {};
  std::vector<std::size_t> widths(columns_.size(), 0);
  Row titles;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    for (const Row& row : rows_) widths[i] = std::max(widths[i], width_of(row.cells[i]));
    if (widths[i] != 0) widths[i] = std::max(widths[i], width_of(columns_[i].title));
    titles.cells.push_back(columns_[i].title);
  }
  std::vector<std::string> lines{indent + paint(line(titles, widths), Color::dim, color)};
  for (const Row& row : rows_) {
    const std::string text = line(row, widths);
    lines.push_back(indent + (row.color ? paint(text, *row.color, color) : text));
    for (const std::string& each : row.below) lines.push_back(indent + "    " + paint(each, Color::dim, color));
  }
  return lines;
}

}  // namespace tutti::cli
