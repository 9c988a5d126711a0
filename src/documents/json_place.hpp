// Where in a JSON text something stands, for errors that name the line. The text is valid. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// The line of a byte, from 1.
int line_at(std::string_view text, std::size_t byte);
/// The line of a value, from 1; `path` is written as in "links[3].bandwidth". 0: there is none.
int line_of(std::string_view text, std::string_view path);
/// The line of the key that comes after `before` others, counted through the whole text. 0: there are not so many.
int line_of_key(std::string_view text, std::size_t before);

/// "line 7: links[3].bandwidth"; without the line where the text has no such place, or there is no text.
std::string place_in(std::string_view text, const std::string& path);

}  // namespace tutti
