#include "program/draw/show.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace tutti {

std::string show_cells(const Cells& cells) {
  static constexpr std::string_view kBuffers[] = {"input", "output", "scratch"};
  std::string text = fmt::format("{} {}", kBuffers[static_cast<std::size_t>(cells.buffer)], cells.first);
  if (cells.count != 1) text += fmt::format("-{}", cells.first + cells.count - 1);
  if (cells.rank != kSelf) text += fmt::format(" of rank {}", cells.rank);
  return text;
}

namespace {

using Row = std::array<std::string, 6>;

std::string show_list(const std::vector<Cells>& cells) {
  std::vector<std::string> texts;
  for (const Cells& cell : cells) texts.push_back(show_cells(cell));
  return fmt::format("{}", fmt::join(texts, " + "));
}

Row row_of(const Step& step, std::size_t number, const Worker& worker) {
  std::vector<std::string> peers;
  if (receives(step.kind)) peers.push_back(fmt::format("<- {}", worker.recv_peer));
  if (sends(step.kind)) peers.push_back(fmt::format("-> {}", worker.send_peer));
  if (step.kind == StepKind::signal) peers.push_back(fmt::format("-> {}", step.peer));
  if (step.kind == StepKind::wait) peers.push_back(fmt::format("<- {}", step.peer));
  std::vector<std::string> notes;
  if (!step.after.empty()) {
    std::vector<std::string> after;
    for (const Dependency& on : step.after) after.push_back(fmt::format("w{} s{}", on.worker, on.step));
    notes.push_back(fmt::format("after {}", fmt::join(after, ", ")));
  }
  if (step.local_first) notes.emplace_back("local first");
  if (step.completes) notes.emplace_back("completes");
  return {fmt::format("{}", number), std::string(name_of(step.kind)), fmt::format("{}", fmt::join(peers, " ")),
          show_list(step.sources),   show_list(step.targets),         fmt::format("{}", fmt::join(notes, "; "))};
}

void write_table(const std::vector<Row>& rows, std::string& out) {
  std::array<std::size_t, 6> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    std::string line = fmt::format("    {:>{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i)
      if (widths[i] != 0) line += fmt::format("  {:<{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
}

std::string size_text(std::uint64_t bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < std::size(kUnits) && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string headline(const Program& program) {
  const Shape& shape = program.shape;
  const auto plural = [](int count, std::string_view word) {
    return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
  };
  std::string line = fmt::format("{}: {}, {}, {}", program.name, name_of(shape.collective), plural(shape.ranks, "rank"),
                                 plural(shape.chunks, "chunk"));
  if (has_root(shape.collective)) line += fmt::format(", root {}", shape.root);
  line += program.in_place && program.out_of_place ? "; in place or not"
          : program.in_place                       ? "; in place only"
                                                   : "; out of place only";
  if (program.one_sided) line += "; one-sided";
  if (program.min_bytes != 0) line += fmt::format("; from {}", size_text(program.min_bytes));
  if (program.max_bytes != 0) line += fmt::format("; up to {}", size_text(program.max_bytes));
  if (program.tile != 0) line += fmt::format("; in tiles of {}", size_text(program.tile));
  return line;
}

}  // namespace

std::string show_text(const Program& program, int max_ranks) {
  std::string out = headline(program) + '\n';
  const int shown = std::clamp(max_ranks, 0, program.shape.ranks);
  for (int rank = 0; rank < shown; ++rank) {
    const RankProgram part = program.part(rank);
    out += fmt::format("\nrank {}", rank);
    if (part.scratch_chunks != 0) out += fmt::format(", {} scratch chunks", part.scratch_chunks);
    out += '\n';
    for (std::size_t w = 0; w < part.workers.size(); ++w) {
      const Worker& worker = part.workers[w];
      out += fmt::format("  worker {}, channel {}\n", w, worker.channel);
      std::vector<Row> rows = {{"step", "kind", "peer", "from", "to", "notes"}};
      for (std::size_t s = 0; s < worker.steps.size(); ++s) rows.push_back(row_of(worker.steps[s], s, worker));
      write_table(rows, out);
    }
  }
  if (shown < program.shape.ranks) out += fmt::format("\n... and {} more ranks\n", program.shape.ranks - shown);
  return out;
}

}  // namespace tutti
