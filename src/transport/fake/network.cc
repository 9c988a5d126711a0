#include "transport/fake/network.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <deque>

namespace tutti {

// One end of a wire: a lane for its owner.
class FakeNetwork::End final : public Lane, public std::enable_shared_from_this<End> {
 public:
  End(FakeNetwork& network, LaneOwner& owner, std::uint32_t index, std::uint32_t epoch)
      : Lane(index, epoch), network_(network), owner_(owner) {}

  void join(const std::shared_ptr<End>& other) { other_ = other; }
  LaneOwner& owner() const { return owner_; }
  bool is_open() const { return open_ && !cut_; }
  double silence(double) override { return 0; }
  std::string name() const override { return fmt::format("wire {}.{}", index(), epoch()); }

  void post(const FrameHeader& header, const std::byte* payload, bool keep) override {
    if (!open_) return;
    queue_.push_back({header, payload, {}, keep});
    last_departure_ = std::max(last_departure_, network_.now_) + network_.delay();
    network_.schedule(last_departure_, [self = shared_from_this()] { self->depart(); });
  }

  void forget_outgoing(const LinkId& link) override {
    std::erase_if(queue_, [&](Queued& frame) {
      if (frame.header.type != FrameType::data || frame.header.link != link) return false;
      frame.copy.assign(frame.payload, frame.payload + frame.header.bytes);
      frame.payload = frame.copy.data();
      frame.copied = true;
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
    if (const auto other = other_.lock()) other->hear_of_end();
  }

  /// The wire is cut: this end is told after a while.
  void hear_of_end() {
    cut_ = true;
    network_.schedule(network_.now_ + network_.delay(), [self = shared_from_this()] {
      if (!self->open_) return;
      self->owner_.lane_down(*self, fail(ErrorCode::system, self->name() + " was cut").value(), false);
    });
  }

  /// A whole frame at once, as if the network had kept a copy.
  void deliver_again(const FrameHeader& header, const std::vector<std::byte>& payload) {
    if (!open_ || cut_ || incoming_) return;
    begin(header);
    complete(header, payload);
  }

 private:
  struct Queued {
    FrameHeader header;
    const std::byte* payload;
    std::vector<std::byte> copy;
    bool keep;
    bool copied = false;
  };

  // The payload leaves the sender's memory only now.
  void depart() {
    if (!open_ || queue_.empty()) return;
    Queued frame = std::move(queue_.front());
    queue_.pop_front();
    std::vector<std::byte> payload(frame.payload, frame.payload + (frame.payload != nullptr ? frame.header.bytes : 0));
    owner_.transmitted(*this, frame.header);
    const auto other = other_.lock();
    if (cut_ || !other) return;
    const std::uint64_t begins = std::max(other->last_arrival_, network_.now_) + network_.delay();
    const std::uint64_t ends = begins + network_.delay();
    other->last_arrival_ = ends;
    const FrameHeader header = frame.header;
    network_.schedule(begins, [other, header] { other->begin(header); });
    network_.schedule(ends, [other, header, payload] { other->complete(header, payload); });
    if (header.type == FrameType::data && network_.draw(100) < network_.faults_.replay_percent)
      network_.replay(other, header, payload);
  }

  void begin(const FrameHeader& header) {
    if (!open_ || cut_) return;
    // What crosses the wire is bytes, and is parsed as such.
    const auto parsed = parse_frame(encode(header));
    const auto place = parsed ? owner_.begin(*this, *parsed) : Result<std::byte*>(tl::unexpected(parsed.error()));
    if (!place) return owner_.lane_down(*this, place.error(), false);
    incoming_ = *parsed;
    landing_ = *place;
  }

  void complete(const FrameHeader& header, const std::vector<std::byte>& payload) {
    if (!open_ || cut_ || !incoming_) return;
    if (landing_ != nullptr) std::memcpy(landing_, payload.data(), payload.size());
    incoming_.reset();
    landing_ = nullptr;
    const auto accepted = owner_.complete(*this, header);
    if (!accepted) return owner_.lane_down(*this, accepted.error(), false);
    owner_.pause(*this, network_.draw(2) == 0 || last_arrival_ <= network_.now_);
  }

  FakeNetwork& network_;
  LaneOwner& owner_;
  std::weak_ptr<End> other_;
  bool open_ = true;
  bool cut_ = false;
  std::deque<Queued> queue_;
  std::uint64_t last_departure_ = 0;
  std::uint64_t last_arrival_ = 0;
  std::optional<FrameHeader> incoming_;
  std::byte* landing_ = nullptr;
};

FakeNetwork::~FakeNetwork() {
  for (const Wire& wire : wires_) {
    wire.one->close();
    wire.other->close();
  }
}

bool FakeNetwork::connect(Peer& one, Peer& other, std::uint32_t index, std::uint32_t epoch) {
  Wire wire{index, std::make_shared<End>(*this, one, index, epoch), std::make_shared<End>(*this, other, index, epoch)};
  wire.one->join(wire.other);
  wire.other->join(wire.one);
  if (!one.lane_up(wire.one)) return false;
  if (!other.lane_up(wire.other)) {
    one.lane_down(*wire.one, fail(ErrorCode::refused, "not wanted").value(), false);
    return false;
  }
  wires_.push_back(std::move(wire));
  return true;
}

void FakeNetwork::cut(std::uint32_t index) {
  for (const Wire& wire : wires_) {
    if (wire.index != index) continue;
    wire.one->hear_of_end();
    wire.other->hear_of_end();
  }
  std::erase_if(wires_, [&](const Wire& wire) { return wire.index == index; });
}

std::vector<std::uint32_t> FakeNetwork::living() const {
  std::vector<std::uint32_t> indices;
  for (const Wire& wire : wires_) indices.push_back(wire.index);
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
  schedule(now_ + delay() * 3, [original, other, copy, payload] {
    if (original->is_open()) other->deliver_again(copy, payload);
  });
}

void FakeNetwork::schedule(std::uint64_t at, std::function<void()> happen) {
  events_.push({at, order_++, std::move(happen)});
}

bool FakeNetwork::step() {
  if (events_.empty()) return false;
  Event event = events_.top();
  events_.pop();
  now_ = std::max(now_, event.at);
  event.happen();
  return true;
}

}  // namespace tutti
