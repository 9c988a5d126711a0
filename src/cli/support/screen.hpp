// The terminal as a screen of its own: lines are drawn over those before, keys come one by one. What was on the
// terminal is back when this ends, also by a signal. One of these at a time, one thread.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "cli/support/interrupts.hpp"
#include "tutti/error.hpp"

namespace tutti::cli {

enum class Key { none, interrupted, up, down, page_up, page_down, home, end, letter };

struct Pressed {
  Key key = Key::none;
  char letter = 0;
};

class Screen {
 public:
  /// Standard input and output must be terminals.
  static Status is_possible();
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// As large as the terminal is now.
  std::size_t rows() const;
  std::size_t columns() const;
  /// What does not fit is left out.
  void draw(const std::vector<std::string>& lines);
  /// The next key; `none` after so many seconds, or when the terminal has another size.
  Pressed wait_key(double seconds);
  int exit_status() const { return interrupts_.exit_status(); }

 private:
  Interrupts interrupts_;
  termios before_{};
};

/// What a terminal sends for a key, turned into it.
Pressed parse_key(std::string_view bytes);

}  // namespace tutti::cli
