#include "program/check/check_parts.hpp"

#include <fmt/format.h>

#include <utility>

namespace tutti::checking {

Violation broken(Violation::Rule rule, StepPosition place, std::string message) {
  return Violation{rule, place.rank, place.worker, place.step, std::move(message)};
}

std::string describe(StepPosition place) {
  return fmt::format("rank {} worker {} step {}", place.rank, place.worker, place.step);
}

std::string describe(const Worker& worker, const Step& step) {
  const std::string_view kind = name_of(step.kind);
  if (receives(step.kind) && sends(step.kind))
    return fmt::format("{} from rank {} to rank {}", kind, worker.recv_peer, worker.send_peer);
  if (receives(step.kind)) return fmt::format("{} from rank {}", kind, worker.recv_peer);
  if (sends(step.kind)) return fmt::format("{} to rank {}", kind, worker.send_peer);
  if (step.kind == StepKind::signal) return fmt::format("signal to rank {}", step.peer);
  if (step.kind == StepKind::wait) return fmt::format("wait for rank {}", step.peer);
  return std::string(kind);
}

std::string describe(const Cells& cells, int offset, int self) {
  static constexpr std::string_view kBuffers[] = {"input", "output", "scratch"};
  const std::string_view buffer = kBuffers[static_cast<std::size_t>(cells.buffer)];
  if (cells.rank == kSelf || cells.rank == self) return fmt::format("{} {}", buffer, cells.first + offset);
  return fmt::format("rank {}'s {} {}", cells.rank, buffer, cells.first + offset);
}

}  // namespace tutti::checking
