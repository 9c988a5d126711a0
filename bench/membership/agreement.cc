// The agreement of shrink() among many members: the state machines themselves, on simulated time, without threads.
// Messages take 0.5 to 1.5 ms, the same for every message between two members.
#include "agreement.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <queue>
#include <random>
#include <set>
#include <utility>
#include <variant>

#include "control/agreement/agreement.hpp"
#include "counts.hpp"

namespace tutti::membership {
namespace {

constexpr std::size_t kBlobBytes = 64;  // of a SegmentName, which shrink() brings
constexpr double kNever = std::numeric_limits<double>::infinity();

Blob blob_of(int member) {
  Blob blob(kBlobBytes);
  std::memcpy(blob.data(), &member, sizeof member);
  return blob;
}

/// How many of a message's bytes are blobs of members.
std::size_t table_bytes(const AgreementMessage& message, int members) {
  if (const auto* join = std::get_if<JoinMessage>(&message))
    return join->blob.size() + (join->accepted ? join->accepted->blobs.bytes() : 0);
  if (const auto* joins = std::get_if<JoinsMessage>(&message)) {
    std::size_t bytes = joins->blobs.bytes();
    for (const auto& each : joins->accepted) bytes += each.proposal.blobs.bytes();
    return bytes;
  }
  if (const auto* propose = std::get_if<ProposeMessage>(&message)) return propose->proposal.blobs.bytes();
  if (const auto* cast = std::get_if<CastMessage>(&message)) {
    const auto inner = decode_agreement_message(cast->message, members, cast->owner);
    return inner ? table_bytes(*inner, members) : 0;
  }
  return 0;
}

class Network {
 public:
  explicit Network(const AgreementScenario& scenario)
      : scenario_(scenario),
        members_(scenario.members),
        sent_(members_),
        received_(members_),
        control_(members_),
        table_in_(members_),
        table_out_(members_),
        rounds_(members_),
        ticks_(static_cast<std::size_t>(members_), kNever) {
    agreements_.reserve(static_cast<std::size_t>(members_));
    const int fan_out = scenario.flat ? members_ : g_agreement_trees.fan_out_for(members_);
    for (int member = 0; member < members_; ++member)
      agreements_.emplace_back(members_, member, AgreementTiming{}, Quorum::majority, fan_out);
    std::mt19937_64 random(scenario.seed);
    for (int death = 0; death < scenario.dead_before; ++death) choose_dead(random);
    const std::vector<int> before(dead_.begin(), dead_.end());
    std::vector<Loss> losses;
    for (const int member : before) losses.push_back({member, Certainty::known});
    for (int member = 0; member < members_; ++member)
      if (!dead_.contains(member)) {
        const double start = std::uniform_real_distribution<double>(0, scenario.last_start)(random);
        at(start, {Event::start, member, -1, nullptr, 0});
      }
    losses_ = std::move(losses);
    for (int death = 0; death < scenario.inner_deaths; ++death)
      at(scenario.last_start + 0.004 + 0.0005 * death, {Event::death, 1 + death * 3, -1, nullptr, 0});
  }

  bool run() {
    while (!events_.empty() && returned_ + dead_.size() < static_cast<std::size_t>(members_) && now_ < 60) {
      Entry entry = events_.top();
      events_.pop();
      now_ = entry.time;
      apply(entry.event);
    }
    return is_right();
  }

  void print(const std::string& name) {
    print_figure(name, members_, "messages sent", sent_);
    print_figure(name, members_, "messages received", received_);
    print_figure(name, members_, "control bytes", control_);
    print_figure(name, members_, "table bytes received", table_in_);
    print_figure(name, members_, "table bytes sent", table_out_);
    print_figure(name, members_, "rounds", rounds_);
    print_figure(name, members_, "largest message", 0, static_cast<double>(largest_));
    print_figure(name, members_, "seconds", 0, now_);
  }

 private:
  struct Event {
    enum Kind : std::uint8_t { start, message, notice, tick, death } kind;
    int member;
    int other;
    SharedBytes bytes;
    std::uint64_t round;
  };
  struct Entry {
    double time;
    std::uint64_t sequence;
    Event event;
    bool operator<(const Entry& other) const {
      return std::pair(time, sequence) > std::pair(other.time, other.sequence);
    }
  };

  void at(double time, Event event) { events_.push({time, sequence_++, std::move(event)}); }

  void choose_dead(std::mt19937_64& random) {
    const int member = static_cast<int>(random() % static_cast<std::uint64_t>(members_));
    if (static_cast<int>(dead_.size()) < members_ / 4) dead_.insert(member);
  }

  static double delay(int from, int to) {
    const auto mixed = (static_cast<std::uint64_t>(from) * 0x9e3779b97f4a7c15u) ^
                       (static_cast<std::uint64_t>(to) * 0xc2b2ae3d27d4eb4fu);
    return 0.0005 + 0.001 * static_cast<double>((mixed >> 20) % 1024) / 1024;
  }

  void apply(Event& event) {
    const int member = event.member;
    if (dead_.contains(member)) return;
    Agreement& agreement = agreements_[static_cast<std::size_t>(member)];
    const bool had_returned = agreement.has_returned();
    switch (event.kind) {
      case Event::start:
        agreement.start(now_, losses_, blob_of(member));
        break;
      case Event::message:
        rounds_[member] = std::max(rounds_[member], event.round);
        agreement.on_message(now_, event.other, std::move(event.bytes));
        break;
      case Event::notice:
        agreement.on_death(now_, {event.other, Certainty::known});
        break;
      case Event::tick:
        ticks_[static_cast<std::size_t>(member)] = kNever;
        agreement.tick(now_);
        break;
      case Event::death:
        return die(member);
    }
    if (!had_returned && agreement.has_returned()) ++returned_;
    send_all(agreement, member);
    double& tick = ticks_[static_cast<std::size_t>(member)];
    if (const double next = std::max(agreement.next_tick(), now_); next < tick) {
      tick = next;
      at(next, {Event::tick, member, -1, nullptr, 0});
    }
  }

  void send_all(Agreement& agreement, int member) {
    auto outgoing = agreement.take_outgoing();
    bool proposes = false;
    std::size_t place = 0;
    for (AgreementPacket& packet : outgoing) {
      const auto message = decode_agreement_message(*packet.bytes, members_, packet.bytes);
      const std::size_t table = message ? table_bytes(*message, members_) : 0;
      proposes = proposes || (member == 0 && table > kBlobBytes);
      // The leader dies with half of its proposal said.
      if (scenario_.leader_dies && proposes && ++place > (outgoing.size() + 1) / 2) return die(member);
      largest_ = std::max(largest_, packet.bytes->size());
      ++sent_[member];
      ++received_[packet.member];
      control_[member] += packet.bytes->size() - table;
      control_[packet.member] += packet.bytes->size() - table;
      table_out_[member] += table;
      table_in_[packet.member] += table;
      at(now_ + delay(member, packet.member),
         {Event::message, packet.member, member, std::move(packet.bytes), rounds_[member] + 1});
    }
  }

  void die(int member) {
    dead_.insert(member);
    if (agreements_[static_cast<std::size_t>(member)].has_returned()) --returned_;
    for (int other = 0; other < members_; ++other)
      if (!dead_.contains(other))
        at(now_ + 0.01 + 10 * delay(member, other), {Event::notice, other, member, nullptr, 0});
  }

  // All who live have returned the same set, which holds all of them.
  bool is_right() {
    const MemberSet* first = nullptr;
    for (int member = 0; member < members_; ++member) {
      const Agreement& agreement = agreements_[static_cast<std::size_t>(member)];
      if (dead_.contains(member)) continue;
      if (!agreement.decided()) return complain(member, "has not decided");
      if (first == nullptr) first = &agreement.decided_set();
      if (agreement.decided_set() != *first) return complain(member, "decided otherwise");
      if (!(*first)[static_cast<std::size_t>(member)]) return complain(member, "lives, and is not in the set");
      if (member % (members_ / 8) != 1) continue;  // a look at the table itself takes long
      const Survivors& survivors = **agreement.result();
      for (std::size_t place = 0; place < survivors.members.size(); ++place)
        if (survivors.blobs[place] != blob_of(survivors.members[place])) return complain(member, "has a wrong table");
    }
    return first != nullptr;
  }

  bool complain(int member, const char* what) const {
    fmt::print(stderr, "membership: of {} members, member {} {}\n", members_, member, what);
    return false;
  }

  const AgreementScenario scenario_;
  const int members_;
  double now_ = 0;
  std::uint64_t sequence_ = 0;
  std::priority_queue<Entry> events_;
  std::vector<Agreement> agreements_;
  std::vector<Loss> losses_;
  std::set<int> dead_;
  std::size_t returned_ = 0;
  std::size_t largest_ = 0;
  Figures sent_, received_, control_, table_in_, table_out_, rounds_;
  std::vector<double> ticks_;
};

}  // namespace

bool measure_agreement(const std::string& name, const AgreementScenario& scenario) {
  Network network(scenario);
  const bool right = network.run();
  network.print(name);
  return right;
}

}  // namespace tutti::membership
