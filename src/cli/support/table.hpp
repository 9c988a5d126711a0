// A table as lines of text: columns as wide as what they hold, those that hold nothing left out. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/support/terminal.hpp"

namespace tutti::cli {

class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;  // numbers end where those above end
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns; `color`: of the whole line.
  void add(std::vector<std::string> cells, std::optional<Color> color = {});
  /// A line of its own under the last one; none where it is empty.
  void below(std::string text);

  std::vector<std::string> lines(const std::string& indent, bool color) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::optional<Color> color;
    std::vector<std::string> below;
  };

  std::string line(const Row& row, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

/// Columns that a text takes up: letters of UTF-8, without escape sequences.
std::size_t width_of(std::string_view text);
/// As much of it as fits; what colours it began are ended.
std::string clipped(std::string_view text, std::size_t width);

}  // namespace tutti::cli
