// Programs in files, whatever the format: the native JSON (format_json.hpp) or MSCCL's XML (format_msccl.hpp); and as
// plans of MSCCL++ (format_mscclpp.hpp), which are only written.
#pragma once

#include <string>
#include <string_view>

#include "program/formats/format_msccl.hpp"
#include "program/formats/format_mscclpp.hpp"
#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Tells the format by the first character that is no space. A program from XML gets its completing steps marked,
/// which takes one that passes the checker up to `values` (check.hpp).
Result<Program> parse_program(std::string_view text);

/// Errors begin with the path.
Result<Program> load_program(const std::string& path);

/// Writes the format that the path's extension names: .json, .xml, or .mscclpp.json. Replaces the file in one step.
Status save_program(const Program& program, const std::string& path, const MscclOptions& xml = {},
                    const MscclppOptions& plan = {});

}  // namespace tutti
