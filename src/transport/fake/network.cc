#include "transport/fake/network.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

constexpr std::uint64_t kRetryBlocked = 5000;       // microseconds until what is blocked is tried again
constexpr double kAskFrom = 0.05;                   // seconds of silence until the way is asked for
constexpr std::uint64_t kAttemptTimeout = 300'000;  // microseconds until a dial fails

Error not_wanted() { return fail(ErrorCode::system, "not wanted").value(); }

}  // namespace

// One end of a wire: a lane for its owner.
class FakeNetwork::End final : public Lane, public std::enable_shared_from_this<End> {
 public:
  End(FakeNetwork& network, Peer& owner, std::uint32_t index, std::uint32_t epoch)
      : Lane(index, epoch),
        network_(network),
        owner_(owner),
        departures_(network.new_source()),
        arrivals_(network.new_source()) {}
  // What it had scheduled held on to it: nothing of that is left.
  ~End() override {
    network_.free_sources_.push_back(departures_);
    network_.free_sources_.push_back(arrivals_);
  }

  void join(const std::shared_ptr<End>& other) { other_ = other; }
  /// Until it is, what comes waits, as in the buffer of a socket; its end, too.
  void set_ready(bool ready) {
    ready_ = ready;
    if (ready && std::exchange(cut_, false)) hear_of_end();
  }
  Peer& owner() const { return owner_; }
  bool is_open() const { return open_ && !cut_; }
  std::string name() const override { return fmt::format("wire {}.{}", index(), epoch()); }

  void post(const FrameHeader& header, const std::byte* payload, bool keep) override {
    if (!open_) return;
    queue_.push_back({header, payload, {}, keep});
    if (unanswered_++ == 0) {
      answered_at_ = network_.seconds();
      owner_.unsettled();
    }
    if (network_.faults_.coarse) {
      depart();
      return;
    }
    last_departure_ = std::max(last_departure_, network_.now_) + network_.delay();
    network_.schedule(departures_, last_departure_, [self = shared_from_this()] { return self->depart(); });
  }

  void forget_outgoing(const LinkId& link) override {
    std::erase_if(queue_, [&](Queued& frame) {
      if (frame.header.type != FrameType::data || frame.header.link != link) return false;
      if (!frame.keep) --unanswered_;
      if (frame.header.bytes != 0) frame.copy.assign(frame.payload, frame.payload + frame.header.bytes);
      frame.payload = frame.copy.data();
      return !frame.keep;
    });
  }

  void forget_incoming(const LinkId& link) override {
    if (incoming_ && incoming_->link == link) landing_ = nullptr;
  }

  void close() override {
    if (!open_) return;
    open_ = false;
    queue_.clear();
    const auto other = other_.lock();
    // The other end hears of it, if anything gets there.
    if (other && !network_.is_blocked(&owner_, index())) other->hear_of_end();
  }

  Silence silence(double now) override {
    if (unanswered_ == 0) return {};
    const auto other = other_.lock();
    const bool shut = network_.is_blocked(&owner_, index()) || (other && network_.is_blocked(&other->owner_, index()));
    const double seconds = std::max(now - answered_at_, 1e-9);
    if (seconds < kAskFrom) return {seconds};
    return {seconds, shut ? Silence::Way::shut : Silence::Way::open};
  }

  /// The wire is cut: this end is told after a while.
  void hear_of_end() {
    if (std::exchange(cut_, true) || !ready_) return;
    network_.schedule(network_.new_source(), network_.now_ + network_.delay(), [self = shared_from_this()] {
      if (self->open_) self->owner_.lane_down(*self, fail(ErrorCode::system, "it was cut").value(), false);
      return true;
    });
  }

  void lose(const char* why) {
    if (open_ && ready_) owner_.lane_down(*this, fail(ErrorCode::system, why).value(), false);
  }

  /// A whole frame at once, as if the network had kept a copy.
  void deliver_again(const FrameHeader& header, const std::vector<std::byte>& payload) {
    if (!open_ || !ready_ || cut_ || incoming_) return;
    begin(header);
    complete(header, payload);
  }

 private:
  struct Queued {
    FrameHeader header;
    const std::byte* payload;
    std::vector<std::byte> copy;
    bool keep;
  };

  // The payload leaves the sender's memory only now.
  bool depart() {
    if (!open_ || queue_.empty()) return true;
    if (network_.is_blocked(&owner_, index())) return false;
    Queued frame = std::move(queue_.front());
    queue_.pop_front();
    std::vector<std::byte> payload(frame.payload, frame.payload + (frame.payload != nullptr ? frame.header.bytes : 0));
    owner_.transmitted(*this, frame.header);
    const auto other = other_.lock();
    if (cut_ || !other) return true;
    const std::uint64_t begins = std::max(other->last_arrival_, network_.now_) + network_.delay();
    const std::uint64_t ends = begins + network_.delay();
    other->last_arrival_ = ends;
    const FrameHeader header = frame.header;
    const auto self = shared_from_this();
    const bool at_once = network_.faults_.coarse && header.bytes == 0;
    if (!at_once)
      network_.schedule(other->arrivals_, begins, [other, header] {
        if (!other->ready_) return false;
        other->begin(header);
        return true;
      });
    network_.schedule(other->arrivals_, ends, [self, other, header, payload, at_once] {
      if (!other->ready_) return false;
      if (at_once) other->begin(header);
      other->complete(header, payload);
      self->answer(*other);
      return true;
    });
    if (header.type == FrameType::data && network_.draw(100) < network_.faults_.replay_percent)
      network_.replay(other, header, payload);
    return true;
  }

  // The other end's kernel does, whatever its process; as soon as that gets through. Who writes to an end that is
  // closed hears that it is.
  void answer(const End& other) {
    if (!open_) return;
    if (network_.is_blocked(&other.owner_, index()))
      return network_.later(kRetryBlocked,
                            [self = shared_from_this(), from = other.shared_from_this()] { self->answer(*from); });
    if (!other.open_) return hear_of_end();
    if (unanswered_ != 0) --unanswered_;
    answered_at_ = network_.seconds();
  }

  void begin(const FrameHeader& header) {
    if (!open_ || cut_) return;
    // What crosses the wire is bytes, and is parsed as such.
    FrameBytes bytes = encode(header);
    if (network_.faults_.header_flip_permille != 0 && network_.draw(1000) < network_.faults_.header_flip_permille) {
      ++network_.header_flips_;
      network_.flip_bits(bytes);
    }
    const auto parsed = parse_frame(bytes);
    const auto place = parsed ? owner_.begin(*this, *parsed) : Result<std::byte*>(tl::unexpected(parsed.error()));
    if (!place) return owner_.lane_down(*this, place.error(), false);
    incoming_ = *parsed;
    landing_ = *place;
  }

  void complete(const FrameHeader& header, const std::vector<std::byte>& payload) {
    if (!open_ || cut_ || !incoming_) return;
    if (landing_ != nullptr) std::memcpy(landing_, payload.data(), payload.size());
    if (landing_ != nullptr && network_.draws_flip(header, index())) {
      ++network_.flips_;
      network_.flip_bits({landing_, payload.size()});
    }
    network_.count(index(), payload.size());
    incoming_.reset();
    landing_ = nullptr;
    const auto accepted = owner_.complete(*this, header);
    if (!accepted) return owner_.lane_down(*this, accepted.error(), false);
    if (open_) owner_.pause(*this, network_.draw(2) == 0 || last_arrival_ <= network_.now_);
  }

  FakeNetwork& network_;
  Peer& owner_;
  std::weak_ptr<End> other_;
  std::size_t departures_;
  std::size_t arrivals_;
  bool ready_ = true;
  bool open_ = true;
  bool cut_ = false;
  std::deque<Queued> queue_;
  std::uint64_t last_departure_ = 0;
  std::uint64_t last_arrival_ = 0;
  std::uint64_t unanswered_ = 0;
  double answered_at_ = 0;
  std::optional<FrameHeader> incoming_;
  std::byte* landing_ = nullptr;
};

FakeNetwork::~FakeNetwork() {
  for (const Wire& wire : wires_) {
    wire.one->close();
    wire.other->close();
  }
  for (Source& source : sources_) std::exchange(source.events, {}).clear();
}

bool FakeNetwork::connect(Peer& one, Peer& other, std::uint32_t index, std::uint32_t epoch) {
  Wire wire{index, std::make_shared<End>(*this, one, index, epoch), std::make_shared<End>(*this, other, index, epoch)};
  wire.one->join(wire.other);
  wire.other->join(wire.one);
  if (!other.lane_up(wire.other)) return false;
  if (!one.lane_up(wire.one)) {
    other.lane_down(*wire.other, not_wanted(), false);
    return false;
  }
  std::erase_if(wires_, [](const Wire& each) { return !each.one->is_open() || !each.other->is_open(); });
  wires_.push_back(std::move(wire));
  return true;
}

void FakeNetwork::dial(Peer& one, Peer& other, const WantedLane& lane) {
  const auto fails = [&one, lane] {
    one.dial_failed(lane, fail(ErrorCode::timed_out, "no answer").value(), DialFailure::passing);
  };
  later(delay() + delay(), [this, &one, &other, lane, fails] {
    if (is_blocked(&one, lane.index)) return later(kAttemptTimeout, fails);
    // The answer may be lost: then the other end has a lane that this one never saw.
    if (is_blocked(&other, lane.index)) {
      other.lane_up(std::make_shared<End>(*this, other, lane.index, lane.epoch));
      return later(kAttemptTimeout, fails);
    }
    greet(one, other, lane);
  });
}

// Whoever is dialed takes the lane into use first, and says so; who dialed hears that later.
void FakeNetwork::greet(Peer& one, Peer& other, const WantedLane& lane) {
  const auto near = std::make_shared<End>(*this, one, lane.index, lane.epoch);
  const auto far = std::make_shared<End>(*this, other, lane.index, lane.epoch);
  near->join(far);
  far->join(near);
  near->set_ready(false);
  if (!other.lane_up(far))
    return later(delay(), [&one, lane] { one.dial_failed(lane, not_wanted(), DialFailure::passing); });
  std::erase_if(wires_, [](const Wire& each) { return !each.one->is_open() || !each.other->is_open(); });
  wires_.push_back({lane.index, near, far});
  later(delay() * draw(20), [&one, near, lane] {
    if (one.lane_up(near)) return near->set_ready(true);
    near->close();
    one.dial_failed(lane, not_wanted(), DialFailure::passing);
  });
}

void FakeNetwork::cut(std::uint32_t index) {
  for (const Wire& wire : wires_) {
    if (wire.index != index) continue;
    wire.one->hear_of_end();
    wire.other->hear_of_end();
  }
  std::erase_if(wires_, [&](const Wire& wire) { return wire.index == index; });
}

void FakeNetwork::drop_end(Peer& at, std::uint32_t index, const char* why) {
  const auto wires = wires_;
  for (const Wire& wire : wires)
    if (wire.index == index) (&wire.one->owner() == &at ? wire.one : wire.other)->lose(why);
}

void FakeNetwork::block(const Peer& from, std::uint32_t index) { blocked_.emplace_back(&from, index); }

void FakeNetwork::unblock(const Peer& from, std::uint32_t index) {
  std::erase(blocked_, std::pair<const void*, std::uint32_t>(&from, index));
}

void FakeNetwork::unblock_all() { blocked_.clear(); }

bool FakeNetwork::is_blocked(const void* from, std::uint32_t index) const {
  return std::find(blocked_.begin(), blocked_.end(), std::pair(from, index)) != blocked_.end();
}

std::vector<std::uint32_t> FakeNetwork::living() const {
  std::vector<std::uint32_t> indices;
  for (const Wire& wire : wires_)
    if (wire.one->is_open() && wire.other->is_open()) indices.push_back(wire.index);
  return indices;
}

// A lane that is lost repeats nothing: once it is fenced, nothing it carried may come.
void FakeNetwork::replay(const std::shared_ptr<End>& original, const FrameHeader& header,
                         const std::vector<std::byte>& payload) {
  if (wires_.empty()) return;
  const Wire& wire = wires_[draw(wires_.size())];
  const auto other = &wire.one->owner() == &original->owner() ? wire.one : wire.other;
  ++replays_;
  FrameHeader copy = header;
  copy.epoch = other->epoch();
  later(delay() * 3, [original, other, copy, payload] {
    if (original->is_open()) other->deliver_again(copy, payload);
  });
}

bool FakeNetwork::draws_flip(const FrameHeader& header, std::uint32_t lane) {
  if (header.type == FrameType::data && flip_next_ == lane) {
    flip_next_.reset();
    return true;
  }
  return faults_.flip_percent != 0 && header.type == FrameType::data && draw(100) < faults_.flip_percent;
}

// From one to three bits, none of them twice: their checksum always tells.
void FakeNetwork::flip_bits(std::span<std::byte> bytes) {
  const std::uint64_t bits = 8 * bytes.size();
  const std::uint64_t first = draw(bits);
  const std::uint64_t count = 1 + draw(3);
  for (std::uint64_t i = 0; i < count && i < bits; ++i) {
    const std::uint64_t bit = (first + i * (bits / 3 + 1)) % bits;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

void FakeNetwork::count(std::uint32_t index, std::size_t bytes) {
  if (carried_.size() <= index) carried_.resize(index + 1);
  carried_[index] += bytes;
}

std::size_t FakeNetwork::new_source() {
  if (free_sources_.empty()) {
    sources_.emplace_back();
    return sources_.size() - 1;
  }
  const std::size_t source = free_sources_.back();
  free_sources_.pop_back();
  return source;
}

void FakeNetwork::schedule(std::size_t source, std::uint64_t at, std::function<bool()> happen) {
  sources_[source].events.push_back({at, order_++, std::move(happen)});
}

void FakeNetwork::later(std::uint64_t delay, std::function<void()> what) {
  const std::size_t source = new_source();
  schedule(source, now_ + delay, [this, source, what = std::move(what)] {
    free_sources_.push_back(source);
    what();
    return true;
  });
}

bool FakeNetwork::happen(std::size_t source) {
  Event event = std::move(sources_[source].events.front());
  sources_[source].events.pop_front();
  now_ = std::max(now_, event.at);
  if (event.happen()) return true;
  event.at = now_ + kRetryBlocked;
  sources_[source].events.push_front(std::move(event));
  return true;
}

bool FakeNetwork::step() {
  std::size_t next = sources_.size();
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    if (sources_[source].events.empty()) continue;
    const Event& event = sources_[source].events.front();
    if (next == sources_.size() || std::pair(event.at, event.order) <
                                       std::pair(sources_[next].events.front().at, sources_[next].events.front().order))
      next = source;
  }
  return next != sources_.size() && happen(next);
}

bool FakeNetwork::step(const std::function<std::size_t(std::size_t)>& choose) {
  std::vector<std::size_t> ready;
  for (std::size_t source = 0; source < sources_.size(); ++source)
    if (!sources_[source].events.empty()) ready.push_back(source);
  return !ready.empty() && happen(ready[choose(ready.size())]);
}

}  // namespace tutti
