#include "diagnosis/wording.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tutti::diagnosis {

std::string ranges_of(const std::vector<int>& numbers) {
  constexpr std::size_t kShown = 8;  // ranges; of a job of 100,000 ranks a sentence cannot name all
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < numbers.size(); ++shown) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (shown == kShown) return text + fmt::format(" and {} more", numbers.size() - i);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string text_of(const Suspect& suspect) {
  if (suspect.process < 0 && suspect.rank < 0) return suspect.host.empty() ? "somebody" : suspect.host;
  const std::string who = suspect.rank >= 0 ? fmt::format("rank {}", suspect.rank) : std::string("a process");
  if (suspect.pid == 0) return suspect.host.empty() ? who : fmt::format("{} (on {})", who, suspect.host);
  return suspect.host.empty() ? fmt::format("{} (pid {})", who, suspect.pid)
                              : fmt::format("{} (pid {} on {})", who, suspect.pid, suspect.host);
}

std::string text_of(const std::vector<Suspect>& suspects) {
  if (suspects.size() == 1) return text_of(suspects.front());
  std::vector<int> ranks;
  for (const Suspect& suspect : suspects) ranks.push_back(suspect.rank);
  std::sort(ranks.begin(), ranks.end());
  return "ranks " + ranges_of(ranks);
}

std::string title_of(const CallFacts& call) {
  if (call.collective == Collective::point_to_point)
    return fmt::format("{} #{} {} {}", call.sends ? "send" : "recv", call.number, call.sends ? "to" : "from",
                       call.root);
  return fmt::format("{} #{}", tutti::name_of(call.collective), call.number);
}

std::string description_of(const CallFacts& call) {
  std::string text =
      fmt::format("{} of {} bytes of {}", tutti::name_of(call.collective), call.bytes, tutti::name_of(call.type));
  if (reduces(call.collective)) text += fmt::format(", {}", tutti::name_of(call.op));
  if (has_root(call.collective)) text += fmt::format(", root {}", call.root);
  return text;
}

std::string name_of(const CommunicatorFacts& communicator) {
  if (!communicator.name.empty()) return communicator.name;
  return "communicator " + fmt::format("{:016x}", communicator.id).substr(0, 8);
}

std::string lasting(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.0f} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace tutti::diagnosis
