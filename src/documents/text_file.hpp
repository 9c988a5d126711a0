// Whole files of text, read and replaced. Errors begin with the path.
#pragma once

#include <string>
#include <string_view>

#include "tutti/error.hpp"

namespace tutti {

/// `what`, as an error about the file at `path`, with the system's reason (errno): "F: cannot be opened: ...".
tl::unexpected<Error> file_error(const std::string& path, std::string_view what);

/// `error`, its message beginning with the path.
Error about_file(const std::string& path, Error error);

Result<std::string> read_text(const std::string& path);

/// With the folders above it; one that is there is as good.
Status make_folder(const std::string& path);

/// Replaces the file in one step: readers see the old text or the new, never half, and what cannot be written leaves
/// the old one. What is not a regular file (a device, a pipe, a link) is written into and stays what it is.
Status replace_text(const std::string& path, std::string_view text);

}  // namespace tutti
