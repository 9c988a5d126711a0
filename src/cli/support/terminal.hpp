// Colours, where the output is a terminal that wants them (NO_COLOR is honoured). Any thread.
#pragma once

#include <string>
#include <string_view>

namespace tutti::cli {

enum class Color { red, green, yellow, blue, magenta, cyan, bold, dim };

/// True where `descriptor` is a terminal and neither NO_COLOR is set nor TERM is "dumb".
bool wants_color(int descriptor);

/// `text` in that colour, or as it is.
std::string paint(std::string_view text, Color color, bool enabled);

}  // namespace tutti::cli
