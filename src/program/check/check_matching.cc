#include "program/check/check_matching.hpp"

#include <fmt/format.h>

#include <compare>
#include <map>

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

enum class FlowKind { data, notice };

/// One FIFO sequence: data or signals from one rank to another on a channel.
struct FlowKey {
  FlowKind kind;
  int source;
  int target;
  int channel;

  auto operator<=>(const FlowKey&) const = default;
};

/// Events at one end of a flow, all of one worker.
struct FlowEnd {
  int worker = kNone;
  std::vector<int> events;
};

struct MessageFlow {
  FlowEnd giving;
  FlowEnd taking;
};

class Matching {
 public:
  Matching(const ProgramParts& parts, int slots, EventGraph& graph) : parts_(parts), slots_(slots), graph_(graph) {}

  Found link() {
    for (int event = 0; event < graph_.size(); ++event)
      if (Found found = collect(event)) return found;
    for (const auto& [key, flow] : flows_) {
      if (Found found = compare(key, flow)) return found;
      link_flow(key, flow);
    }
    return std::nullopt;
  }

 private:
  Found collect(int event) {
    const StepEvent& at = graph_.at(event);
    const Worker& worker = parts_.worker(at.worker);
    const Step& step = step_of(parts_, at);
    const int rank = parts_.rank_of(at.worker);
    if (receives(step.kind)) {
      const FlowKey key{FlowKind::data, worker.recv_peer, rank, worker.channel};
      if (Found found = add(flows_[key].taking, event, "receives from", worker.recv_peer)) return found;
    }
    if (sends(step.kind)) {
      const FlowKey key{FlowKind::data, rank, worker.send_peer, worker.channel};
      if (Found found = add(flows_[key].giving, event, "sends to", worker.send_peer)) return found;
    }
    if (step.kind == StepKind::signal)
      return add(flows_[{FlowKind::notice, rank, step.peer, worker.channel}].giving, event, "signals", step.peer);
    if (step.kind == StepKind::wait)
      return add(flows_[{FlowKind::notice, step.peer, rank, worker.channel}].taking, event, "waits for", step.peer);
    return std::nullopt;
  }

  Found add(FlowEnd& end, int event, std::string_view verb, int peer) {
    const StepEvent& at = graph_.at(event);
    if (end.worker == kNone) end.worker = at.worker;
    if (end.worker != at.worker)
      return violation(event, fmt::format("{} rank {} on channel {}, as worker {} does: which comes first is not fixed",
                                          verb, peer, parts_.worker(at.worker).channel,
                                          parts_.workers[static_cast<std::size_t>(end.worker)].worker));
    end.events.push_back(event);
    return std::nullopt;
  }

  /// Walks both ends step by step; afterwards they have equally many events, chunk beside chunk.
  Found compare(const FlowKey& key, const MessageFlow& flow) const {
    const auto& given = flow.giving.events;
    const auto& taken = flow.taking.events;
    std::size_t at = 0;
    for (int number = 0; at < given.size() && at < taken.size(); ++number) {
      const std::size_t gives = step_length(given, at);
      const std::size_t takes = step_length(taken, at);
      if (gives != takes)
        return violation(given[at], fmt::format("send {} to rank {} on channel {} has {} chunks, but {} receives {}",
                                                number, key.target, key.channel, gives, place(taken[at]), takes));
      at += gives;
    }
    if (at < given.size()) return unmatched_giving(key, given[at], taken.size());
    if (at < taken.size()) return unmatched_taking(key, taken[at], given.size());
    return std::nullopt;
  }

  std::size_t step_length(const std::vector<int>& events, std::size_t begin) const {
    const int step = graph_.at(events[begin]).step;
    std::size_t end = begin;
    while (end < events.size() && graph_.at(events[end]).step == step) ++end;
    return end - begin;
  }

  Violation unmatched_giving(const FlowKey& key, int event, std::size_t taken) const {
    if (key.kind == FlowKind::notice)
      return violation(event, fmt::format("signals rank {} on channel {}, which waits for only {} signals there",
                                          key.target, key.channel, taken));
    return violation(event, fmt::format("sends to rank {} on channel {}, which receives only {} chunks there",
                                        key.target, key.channel, taken));
  }

  Violation unmatched_taking(const FlowKey& key, int event, std::size_t given) const {
    if (key.kind == FlowKind::notice)
      return violation(event, fmt::format("waits for rank {} on channel {}, which sends only {} signals there",
                                          key.source, key.channel, given));
    return violation(event, fmt::format("receives from rank {} on channel {}, which sends only {} chunks there",
                                        key.source, key.channel, given));
  }

  void link_flow(const FlowKey& key, const MessageFlow& flow) {
    const auto slots = static_cast<std::size_t>(slots_);
    for (std::size_t i = 0; i < flow.giving.events.size(); ++i) {
      connect(flow.giving.events[i], graph_.message_to, flow.taking.events[i], graph_.message_from);
      if (key.kind == FlowKind::data && i >= slots)
        connect(flow.taking.events[i - slots], graph_.slot_to, flow.giving.events[i], graph_.slot_from);
    }
  }

  static void connect(int from, std::vector<int>& to_of, int to, std::vector<int>& from_of) {
    to_of[static_cast<std::size_t>(from)] = to;
    from_of[static_cast<std::size_t>(to)] = from;
  }

  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::matching, place_of(parts_, graph_.at(event)), std::move(message));
  }

  std::string place(int event) const { return describe(place_of(parts_, graph_.at(event))); }

  const ProgramParts& parts_;
  const int slots_;
  EventGraph& graph_;
  std::map<FlowKey, MessageFlow> flows_;
};

}  // namespace

std::optional<Violation> link_messages(const ProgramParts& parts, int slots, EventGraph& graph) {
  return Matching(parts, slots, graph).link();
}

}  // namespace tutti::checking
