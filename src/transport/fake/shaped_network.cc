#include "transport/fake/shaped_network.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

namespace tutti {

// One end of a lane: what leaves from it, and what waits at its port.
class ShapedNetwork::End final : public Lane, public std::enable_shared_from_this<End> {
 public:
  End(ShapedNetwork& network, Peer& owner, std::uint32_t index, std::uint32_t epoch)
      : Lane(index, epoch), network_(network), owner_(owner), rate_(network.options_.rate) {}

  void join(const std::shared_ptr<End>& other) { other_ = other; }
  const Peer& owner() const { return owner_; }
  void set_rate(double rate) { rate_ = rate; }

  void post(const FrameHeader& header, const std::byte*, bool) override {
    if (!open_) return;
    queue_.insert(place_of(header), header);
    handed_over_ += kFrameHeaderBytes + header.bytes;
    if (queue_.size() == 1) leave();
  }
  void forget_outgoing(const LinkId&) override {}
  void forget_incoming(const LinkId&) override {}
  void close() override { open_ = false; }
  Silence silence(double) override { return {}; }
  std::string name() const override { return fmt::format("shaped {}.{}", index(), epoch()); }
  monitor::PathView look() override { return {delivered_, handed_over_ - delivered_, 0, false, 0, 0}; }
  std::uint64_t handed_over() const override { return handed_over_; }

  /// Something has changed for the process at this end.
  void read() {
    if (!open_ || reading_ || port_.empty()) return;
    const double times = network_.speed_of(owner_);
    if (times == 0) return;
    const bool hiccup = network_.options_.hiccups > 0 && network_.draw() < network_.options_.hiccups;
    reading_ = true;
    network_.later(network_.options_.take * times * (hiccup ? 20 : 1), [self = shared_from_this()] {
      self->reading_ = false;
      self->take();
      self->read();
    });
  }

 private:
  std::deque<FrameHeader>::iterator place_of(const FrameHeader& header) {
    if (header.type != FrameType::ack && header.type != FrameType::tried) return queue_.end();
    std::size_t held = 0;
    return std::find_if(queue_.begin(), queue_.end(), [&](const FrameHeader& each) {
      const bool waits = held >= network_.options_.socket && each.type == FrameType::data;
      held += kFrameHeaderBytes + each.bytes;
      return waits;
    });
  }

  // The frame at the head of the queue is on its way out.
  void leave() {
    const double bytes = kFrameHeaderBytes + queue_.front().bytes;
    const double jitter = network_.options_.jitter * (2 * network_.draw() - 1);
    network_.later(bytes / rate_ * (1 + jitter), [self = shared_from_this()] { self->left(); });
  }

  void left() {
    if (!open_) return;
    const FrameHeader header = queue_.front();
    queue_.pop_front();
    if (!queue_.empty()) leave();
    network_.later(network_.options_.latency, [self = shared_from_this(), header] { self->arrive(header); });
    if (header.type == FrameType::data) owner_.transmitted(*this, header);
  }

  void arrive(const FrameHeader& header) {
    delivered_ += kFrameHeaderBytes + header.bytes;
    network_.carried_[index()] += kFrameHeaderBytes + header.bytes;
    const auto other = other_.lock();
    if (!other || !other->open_) return;
    other->port_.push_back(header);
    other->read();
  }

  void take() {
    if (!open_ || port_.empty()) return;
    const FrameHeader header = port_.front();
    port_.pop_front();
    if (!owner_.begin(*this, header) || !owner_.complete(*this, header)) return close();
    owner_.pause(*this, port_.empty());
  }

  ShapedNetwork& network_;
  Peer& owner_;
  double rate_;
  std::weak_ptr<End> other_;
  bool open_ = true;
  bool reading_ = false;
  std::deque<FrameHeader> queue_;
  std::deque<FrameHeader> port_;
  std::uint64_t handed_over_ = 0;
  std::uint64_t delivered_ = 0;
};

ShapedNetwork::~ShapedNetwork() {
  for (const auto& end : ends_) end->close();
}

void ShapedNetwork::connect(Peer& one, Peer& other, std::uint32_t index, std::uint32_t epoch) {
  const auto near = std::make_shared<End>(*this, one, index, epoch);
  const auto far = std::make_shared<End>(*this, other, index, epoch);
  near->join(far);
  far->join(near);
  ends_.push_back(near);
  ends_.push_back(far);
  if (carried_.size() <= index) carried_.resize(index + 1);
  other.lane_up(far);
  one.lane_up(near);
}

void ShapedNetwork::set_rate(const Peer& from, std::uint32_t index, double rate) {
  for (const auto& end : ends_)
    if (&end->owner() == &from && end->index() == index) end->set_rate(rate);
}

void ShapedNetwork::set_speed(const Peer& process, double times) {
  std::erase_if(processes_, [&](const Process& each) { return each.peer == &process; });
  processes_.push_back({&process, times});
  for (const auto& end : ends_)
    if (&end->owner() == &process) end->read();
}

double ShapedNetwork::speed_of(const Peer& process) const {
  const auto found =
      std::find_if(processes_.begin(), processes_.end(), [&](const Process& each) { return each.peer == &process; });
  return found == processes_.end() ? 1 : found->times;
}

void ShapedNetwork::later(double seconds, std::function<void()> what) {
  events_.push({now_ + static_cast<std::uint64_t>(seconds * 1e9), order_++, std::move(what)});
}

bool ShapedNetwork::step() {
  if (events_.empty()) return false;
  const Event next = events_.top();
  events_.pop();
  now_ = next.at;
  next.happen();
  return true;
}

}  // namespace tutti
