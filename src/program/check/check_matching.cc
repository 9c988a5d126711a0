#include "program/check/check_matching.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

enum class FlowKind { data, notice };

/// One FIFO sequence: data or signals from one rank to another on a channel. With a symmetry, the one of those moved to
/// each other whose source is a representative.
struct FlowKey {
  FlowKind kind;
  int source;
  int target;
  int channel;

  bool operator==(const FlowKey&) const = default;
};

struct HashOfKey {
  std::size_t operator()(const FlowKey& key) const {
    const auto number = [](int value) { return static_cast<std::uint64_t>(static_cast<unsigned>(value)); };
    const std::uint64_t ends = number(key.source) << 32U | number(key.target);
    const std::uint64_t rest = number(key.channel) << 1U | static_cast<std::uint64_t>(key.kind);
    return static_cast<std::size_t>((ends * 0x9E3779B97F4A7C15ULL ^ rest * 0xC2B2AE3D27D4EB4FULL) >> 7U);
  }
};

bool is_before(const FlowKey& a, const FlowKey& b) {
  return std::tie(a.kind, a.source, a.target, a.channel) < std::tie(b.kind, b.source, b.target, b.channel);
}

/// Events at one end of a flow, all of one worker, as a list in order.
struct FlowEnd {
  int worker = kNone;
  int move = 0;  // the events happen moved so
  int first = kNone;
  int last = kNone;
  int size = 0;
};

struct MessageFlow {
  FlowKey key;
  FlowEnd giving;
  FlowEnd taking;
};

class Matching {
 public:
  Matching(const ProgramParts& parts, int slots, EventGraph& graph)
      : parts_(parts),
        slots_(slots),
        graph_(graph),
        next_given_(graph.events.size(), kNone),
        next_taken_(graph.events.size(), kNone) {}

  Found link() {
    for (std::size_t worker = 0; worker < parts_.workers.size(); ++worker)
      if (Found found = collect(static_cast<int>(worker))) return found;
    const MessageFlow* wrong = nullptr;  // the first by its key: of several faults always the same one is reported
    Found fault;
    for (const MessageFlow& flow : flows_) {
      if (Found found = compare(flow); !found) {
        link_flow(flow);
      } else if (wrong == nullptr || is_before(flow.key, wrong->key)) {
        wrong = &flow;
        fault = std::move(found);
      }
    }
    return fault;
  }

 private:
  /// Puts the events of a worker into the flows of its peers.
  Found collect(int number) {
    const Worker& worker = parts_.worker(number);
    const int rank = parts_.rank_of(number);
    int to_peer = kNone;  // flows, as indices
    int from_peer = kNone;
    const auto begin = graph_.first_event[static_cast<std::size_t>(number)];
    const auto end = graph_.first_event[static_cast<std::size_t>(number) + 1];
    for (int event = begin; event < end; ++event) {
      const Step& step = *graph_.at(event).what;
      Found found;
      if (receives(step.kind)) {
        if (from_peer == kNone) from_peer = flow_from(FlowKind::data, worker.recv_peer, rank, worker.channel);
        found = take(from_peer, event, "receives from", worker.recv_peer);
      }
      if (!found && sends(step.kind)) {
        if (to_peer == kNone) to_peer = flow_of({FlowKind::data, rank, worker.send_peer, worker.channel});
        found = give(to_peer, event, "sends to", worker.send_peer);
      }
      if (step.kind == StepKind::signal)
        found = give(flow_of({FlowKind::notice, rank, step.peer, worker.channel}), event, "signals", step.peer);
      if (step.kind == StepKind::wait)
        found = take(flow_from(FlowKind::notice, step.peer, rank, worker.channel), event, "waits for", step.peer);
      if (found) return found;
    }
    return std::nullopt;
  }

  int flow_of(const FlowKey& key) {
    const auto [place, is_new] = index_of_.try_emplace(key, static_cast<int>(flows_.size()));
    if (is_new) flows_.push_back({key, {}, {}});
    return place->second;
  }

  /// The flow from a peer to a representative: the one whose source is a representative, of which it is moved.
  int flow_from(FlowKind kind, int peer, int rank, int channel) {
    const int representative =
        parts_.orbits.representatives()[static_cast<std::size_t>(parts_.orbits.representative_index(peer))];
    const int back = parts_.orbits.opposite(parts_.orbits.move_of(peer));
    const int flow = flow_of({kind, representative, parts_.orbits.moved_rank(rank, back), channel});
    flows_[static_cast<std::size_t>(flow)].taking.move = back;
    return flow;
  }

  Found give(int flow, int event, std::string_view verb, int peer) {
    return add(flows_[static_cast<std::size_t>(flow)].giving, next_given_, event, verb, peer);
  }
  Found take(int flow, int event, std::string_view verb, int peer) {
    return add(flows_[static_cast<std::size_t>(flow)].taking, next_taken_, event, verb, peer);
  }

  Found add(FlowEnd& end, std::vector<int>& next, int event, std::string_view verb, int peer) {
    const StepEvent& at = graph_.at(event);
    if (end.worker == kNone) end.worker = at.worker;
    if (end.worker != at.worker)
      return violation(event, fmt::format("{} rank {} on channel {}, as worker {} does: which comes first is not fixed",
                                          verb, peer, parts_.worker(at.worker).channel,
                                          parts_.workers[static_cast<std::size_t>(end.worker)].worker));
    (end.first == kNone ? end.first : next[static_cast<std::size_t>(end.last)]) = event;
    end.last = event;
    ++end.size;
    return std::nullopt;
  }

  /// Walks both ends step by step; afterwards they have equally many events, chunk beside chunk.
  Found compare(const MessageFlow& flow) const {
    int given = flow.giving.first;
    int taken = flow.taking.first;
    for (int number = 0; given != kNone && taken != kNone; ++number) {
      const int gives = step_length(given, next_given_);
      const int takes = step_length(taken, next_taken_);
      if (gives != takes)
        return violation(given,
                         fmt::format("send {} to rank {} on channel {} has {} chunks, but {} receives {}", number,
                                     flow.key.target, flow.key.channel, gives, place(taken, flow.taking.move), takes));
      for (int i = 0; i < gives; ++i) {
        given = next_given_[static_cast<std::size_t>(given)];
        taken = next_taken_[static_cast<std::size_t>(taken)];
      }
    }
    if (given != kNone) return unmatched_giving(flow.key, given, flow.taking.size);
    if (taken == kNone) return std::nullopt;
    FlowKey seen = flow.key;  // by the representative that takes
    seen.source = parts_.orbits.moved_rank(seen.source, parts_.orbits.opposite(flow.taking.move));
    return unmatched_taking(seen, taken, flow.giving.size);
  }

  /// Events of the same step, from `event` on.
  int step_length(int event, const std::vector<int>& next) const {
    const int step = graph_.at(event).step;
    int length = 0;
    for (; event != kNone && graph_.at(event).step == step; event = next[static_cast<std::size_t>(event)]) ++length;
    return length;
  }

  Violation unmatched_giving(const FlowKey& key, int event, int taken) const {
    if (key.kind == FlowKind::notice)
      return violation(event, fmt::format("signals rank {} on channel {}, which waits for only {} signals there",
                                          key.target, key.channel, taken));
    return violation(event, fmt::format("sends to rank {} on channel {}, which receives only {} chunks there",
                                        key.target, key.channel, taken));
  }

  Violation unmatched_taking(const FlowKey& key, int event, int given) const {
    if (key.kind == FlowKind::notice)
      return violation(event, fmt::format("waits for rank {} on channel {}, which sends only {} signals there",
                                          key.source, key.channel, given));
    return violation(event, fmt::format("receives from rank {} on channel {}, which sends only {} chunks there",
                                        key.source, key.channel, given));
  }

  void link_flow(const MessageFlow& flow) {
    const int move = flow.taking.move;
    const int back = parts_.orbits.opposite(move);
    int given = flow.giving.first;
    int taken = flow.taking.first;
    int waiting = kNone;  // the send that needs the slot of the receive at hand
    for (int i = 0; given != kNone; ++i) {
      connect(given, graph_.message_to, taken, graph_.message_from);
      graph_.to_move[static_cast<std::size_t>(given)] = move;
      graph_.from_move[static_cast<std::size_t>(taken)] = back;
      given = next_given_[static_cast<std::size_t>(given)];
      taken = next_taken_[static_cast<std::size_t>(taken)];
      if (i + 1 == slots_) waiting = given;
    }
    if (flow.key.kind != FlowKind::data) return;
    for (taken = flow.taking.first; waiting != kNone; taken = next_taken_[static_cast<std::size_t>(taken)]) {
      connect(taken, graph_.slot_to, waiting, graph_.slot_from);
      waiting = next_given_[static_cast<std::size_t>(waiting)];
    }
  }

  static void connect(int from, std::vector<int>& to_of, int to, std::vector<int>& from_of) {
    to_of[static_cast<std::size_t>(from)] = to;
    from_of[static_cast<std::size_t>(to)] = from;
  }

  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::matching, place_of(parts_, graph_.at(event)), std::move(message));
  }

  std::string place(int event, int move) const {
    StepPosition place = place_of(parts_, graph_.at(event));
    place.rank = parts_.orbits.moved_rank(place.rank, move);
    return describe(place);
  }

  const ProgramParts& parts_;
  const int slots_;
  EventGraph& graph_;
  std::vector<MessageFlow> flows_;
  std::unordered_map<FlowKey, int, HashOfKey> index_of_;
  std::vector<int> next_given_;  // per event, the next of its flow
  std::vector<int> next_taken_;
};

}  // namespace

std::optional<Violation> link_messages(const ProgramParts& parts, int slots, EventGraph& graph) {
  return Matching(parts, slots, graph).link();
}

}  // namespace tutti::checking
