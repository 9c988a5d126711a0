#include "program/check/check_matching.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

enum class FlowKind { data, notice };

/// One FIFO sequence: data or signals from one rank to another on a channel. With a symmetry, the one of those
/// translated to each other whose source is a representative.
struct FlowKey {
  FlowKind kind;
  int source;
  int target;
  int channel;

  bool operator==(const FlowKey&) const = default;
};

bool is_before(const FlowKey& a, const FlowKey& b) {
  return std::tie(a.kind, a.source, a.target, a.channel) < std::tie(b.kind, b.source, b.target, b.channel);
}

/// Events at one end of a flow, all of one worker, as a list in order.
struct FlowEnd {
  int first = kNone;
  int last = kNone;
};

struct MessageFlow {
  FlowKey key;
  FlowEnd giving;
  FlowEnd taking;
  int translation = 0;  // the events of the taking end happen translated so
};

/// All flows, found by their keys: a table of their numbers, at most half full, with the next free place for those
/// whose own is taken. Flows of one rank lie side by side.
class FlowTable {
 public:
  explicit FlowTable(int ranks) : ranks_(ranks), places_(1024, kNone) {}

  /// The number of the flow, which is made at its first use.
  int find_or_add(const FlowKey& key) {
    std::size_t place = place_of(key);
    for (; places_[place] != kNone; place = after(place))
      if ((*this)[places_[place]].key == key) return places_[place];
    const int flow = static_cast<int>(flows_.size());
    places_[place] = flow;
    flows_.push_back({key, {}, {}, 0});
    if (flows_.size() * 2 > places_.size()) grow();
    return flow;
  }

  MessageFlow& operator[](int flow) { return flows_[static_cast<std::size_t>(flow)]; }
  const std::vector<MessageFlow>& all() const { return flows_; }

 private:
  std::size_t after(std::size_t place) const { return (place + 1) & (places_.size() - 1); }
  std::size_t place_of(const FlowKey& key) const {
    const auto number = [](int value) { return static_cast<std::size_t>(value); };
    const std::size_t pair = number(key.source) * number(ranks_) + number(key.target);
    return (pair + number(key.channel) * 0x9E3779B1U + (key.kind == FlowKind::notice ? 0x85EBCA77U : 0)) &
           (places_.size() - 1);
  }

  void grow() {
    places_.assign(places_.size() * 4, kNone);
    for (std::size_t flow = 0; flow < flows_.size(); ++flow) {
      std::size_t place = place_of(flows_[flow].key);
      while (places_[place] != kNone) place = after(place);
      places_[place] = static_cast<int>(flow);
    }
  }

  const int ranks_;
  std::vector<MessageFlow> flows_;
  std::vector<int> places_;  // as many as a power of two
};

class Matching {
 public:
  Matching(const ProgramParts& parts, EventGraph& graph) : parts_(parts), graph_(graph), flows_(parts.shape.ranks) {
    graph.message_from.resize(graph.events.size());
    graph.message_to.resize(graph.events.size());
  }

  Found link() {
    for (std::size_t worker = 0; worker < parts_.workers.size(); ++worker)
      if (Found found = collect(static_cast<int>(worker))) return found;
    const MessageFlow* wrong = nullptr;  // the first by its key: of several faults always the same one is reported
    Found fault;
    for (const MessageFlow& flow : flows_.all()) {
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
        if (to_peer == kNone) to_peer = flows_.find_or_add({FlowKind::data, rank, worker.send_peer, worker.channel});
        found = give(to_peer, event, "sends to", worker.send_peer);
      }
      if (step.kind == StepKind::signal)
        found =
            give(flows_.find_or_add({FlowKind::notice, rank, step.peer, worker.channel}), event, "signals", step.peer);
      if (step.kind == StepKind::wait)
        found = take(flow_from(FlowKind::notice, step.peer, rank, worker.channel), event, "waits for", step.peer);
      if (found) return found;
    }
    return std::nullopt;
  }

  /// The flow from a peer to a representative: the one whose source is a representative, of which it is translated.
  int flow_from(FlowKind kind, int peer, int rank, int channel) {
    const int representative =
        parts_.orbits.representatives()[static_cast<std::size_t>(parts_.orbits.representative_index(peer))];
    const int back = parts_.orbits.opposite(parts_.orbits.translation_of(peer));
    const int flow = flows_.find_or_add({kind, representative, parts_.orbits.translated_rank(rank, back), channel});
    flows_[flow].translation = back;
    return flow;
  }

  Found give(int flow, int event, std::string_view verb, int peer) {
    return add(flows_[flow].giving, graph_.message_to, event, verb, peer);
  }
  Found take(int flow, int event, std::string_view verb, int peer) {
    return add(flows_[flow].taking, graph_.message_from, event, verb, peer);
  }

  /// Until the events of a flow are linked, their messages hold the next event of the same end.
  Found add(FlowEnd& end, std::vector<TranslatedEvent>& next, int event, std::string_view verb, int peer) {
    const int worker = graph_.at(event).worker;
    if (end.first != kNone && graph_.at(end.first).worker != worker)
      return violation(
          event, fmt::format("{} rank {} on channel {}, as worker {} does: which comes first is not fixed", verb, peer,
                             parts_.worker(worker).channel, place_of(parts_, graph_.at(end.first)).worker));
    (end.first == kNone ? end.first : next[static_cast<std::size_t>(end.last)].event) = event;
    end.last = event;
    return std::nullopt;
  }

  /// Walks both ends step by step; afterwards they have equally many events, chunk beside chunk.
  Found compare(const MessageFlow& flow) const {
    int given = flow.giving.first;
    int taken = flow.taking.first;
    for (int number = 0; given != kNone && taken != kNone; ++number) {
      const int gives = graph_.at(given).chunks;
      const int takes = graph_.at(taken).chunks;
      if (gives != takes)
        return violation(given,
                         fmt::format("send {} to rank {} on channel {} has {} chunks, but {} receives {}", number,
                                     flow.key.target, flow.key.channel, gives, place(taken, flow.translation), takes));
      given = graph_.receiver_of(given).event;
      taken = graph_.sender_of(taken).event;
    }
    if (given != kNone) return unmatched_giving(flow.key, given, chunks_in(flow.taking, graph_.message_from));
    if (taken == kNone) return std::nullopt;
    FlowKey seen = flow.key;  // by the representative that takes
    seen.source = parts_.orbits.translated_rank(seen.source, parts_.orbits.opposite(flow.translation));
    return unmatched_taking(seen, taken, chunks_in(flow.giving, graph_.message_to));
  }

  int chunks_in(const FlowEnd& end, const std::vector<TranslatedEvent>& next) const {
    int chunks = 0;
    for (int event = end.first; event != kNone; event = next[static_cast<std::size_t>(event)].event)
      chunks += graph_.at(event).chunks;
    return chunks;
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
    const int back = parts_.orbits.opposite(flow.translation);
    int given = flow.giving.first;
    int taken = flow.taking.first;
    while (given != kNone) {
      TranslatedEvent& to = graph_.message_to[static_cast<std::size_t>(given)];
      TranslatedEvent& from = graph_.message_from[static_cast<std::size_t>(taken)];
      const int next_given = std::exchange(to, {taken, flow.translation}).event;
      const int next_taken = std::exchange(from, {given, back}).event;
      given = next_given;
      taken = next_taken;
    }
  }

  Violation violation(int event, std::string message) const {
    return broken(Violation::Rule::matching, place_of(parts_, graph_.at(event)), std::move(message));
  }

  std::string place(int event, int translation) const {
    StepPosition place = place_of(parts_, graph_.at(event));
    place.rank = parts_.orbits.translated_rank(place.rank, translation);
    return describe(place);
  }

  const ProgramParts& parts_;
  EventGraph& graph_;
  FlowTable flows_;
};

}  // namespace

std::optional<Violation> link_messages(const ProgramParts& parts, EventGraph& graph) {
  return Matching(parts, graph).link();
}

}  // namespace tutti::checking
