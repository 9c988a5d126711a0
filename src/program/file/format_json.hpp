// The native file of a program: JSON, the source of truth at any scale.
//
//   {
//     "format": "tutti program 1",
//     "name": "ring",
//     "shape": {"collective": "all_gather", "ranks": 4, "chunks": 1},        "root" for rooted collectives
//     "in_place": true, "out_of_place": true,                                  both true where left out
//     "min_bytes": "64K", "max_bytes": "1G", "tile": "256K",                 numbers, or text with K M G T; 0: no limit
//     "every_rank": {"scratch": 0, "workers": [ WORKER ... ]}                or "ranks": one such object for each
//   }
// Where ranks do the same but for a translation (translations.hpp), a part stands for all it is moved to:
//     "moved_by": [[STRIDE, SIZE] ...], "homes": [ one object for each rank whose moving digits are 0 ]
//   WORKER   {"send": NUMBER, "recv": NUMBER, "channel": NUMBER, "steps": [ STEP ... ]}
//   STEP     {"kind": "recv_reduce", "from": CELLS, "to": CELLS, "peer": NUMBER, "local_first": true,
//             "completes": true, "after": [{"worker": NUMBER, "step": NUMBER} ...]}
//            {"repeat": 7, "steps": [ STEP ... ]}       counters are i, j, k, l from the outermost in; "as" renames one
//   CELLS    {"output": NUMBER, "count": NUMBER, "rank": NUMBER}, or a list of such; also "input", "scratch"
//   NUMBER   7, or {"base": 1, "rank": 1, "i": -1, "mod": 8, "plus": 4} for ((1 + rank - i) mod 8) + 4
//            (the remainder is never negative); for ranks also {"relative": -1}: (rank - 1) mod ranks
//
// Dependencies count steps as expanded. Reading is strict: what is unknown, of the wrong type or out of range is an
// error that names the line, the place and the value ("line 9: ranks[2].workers[0].steps[3].kind: 'sned' is no ...").
#pragma once

#include <string>
#include <string_view>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// A program whose parts expand on demand. Input may be hostile: at most 64 MiB of text, 65,536 ranks, 4 Mi steps a
/// rank, loops four deep. Whether the program is right is for check() to say.
Result<Program> load_json(std::string_view text);

/// The shortest form: one text for all ranks where their parts agree up to the rank, loops where steps repeat.
/// load_json(save_json(p)) has the same parts. Looks at every rank's part; fails where there are too many steps
/// (fold.hpp).
Result<std::string> save_json(const Program& program);

}  // namespace tutti
