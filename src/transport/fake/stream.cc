#include "transport/fake/stream.hpp"

#include <algorithm>

namespace tutti {
Stream::Stream(const StreamOptions& options)
    : options_(options),
      network_(options.network),
      sender_(make_peer(true)),
      receiver_(make_peer(false)),
      memory_(options.chunk),
      left_(options.chunks_per_operation) {
  send_ = sender_->open_send({1, 0, 1, 0});
  recv_ = receiver_->open_recv({1, 0, 1, 0});
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) network_.connect(*sender_, *receiver_, lane);
  keep_turning();
}

Stream::~Stream() {
  send_.reset();
  recv_.reset();
}

std::shared_ptr<Peer> Stream::make_peer(bool watched) {
  PeerOptions options;
  options.checksums = Checksums::off;  // no payload is moved
  options.limits = {options_.chunk, std::max<std::size_t>(32 * chunk_cost(options_.chunk), 2 << 20), 0};
  options.clock = [this] { return network_.now(); };
  if (watched) {
    options.watch.emplace();
    options.watch->monitor = options_.monitor;
    options.watch->monitor.stamps_per_second = 1e9;
    options.watch->report = [this](const monitor::Event& event) {
      if (event.kind == monitor::EventKind::lane_up || event.kind == monitor::EventKind::lane_down) return;
      LaneEvent told;
      told.kind = event.kind;
      told.cause = event.cause;
      told.lane = event.lane;
      told.at = static_cast<double>(event.at) * 1e-9;
      told.began = static_cast<double>(event.began) * 1e-9;
      told.text = event.text;
      std::copy(std::begin(event.values), std::end(event.values), told.values);
      events_.push_back(told);
    };
  }
  return std::make_shared<Peer>("peer", std::move(options));
}

void Stream::run_until(double seconds) {
  while (network_.now() < seconds && network_.step()) turn();
}

void Stream::keep_turning() {
  network_.later(options_.turn, [this] { keep_turning(); });
}

void Stream::turn() {
  offer();
  take();
  sender_->watch()->check_overdue(network_.now());
}

void Stream::offer() {
  while (network_.now() >= next_offer_ && send_->send(memory_.data(), memory_.size(), {operation_, 1})) {
    if (pace_ > 0) next_offer_ = network_.now() + pace_;
    if (--left_ != 0) continue;
    left_ = options_.chunks_per_operation;
    ++operation_;
    next_offer_ = network_.now() + 2 * network_.draw() * options_.between_operations;
  }
}

void Stream::take() {
  const std::uint64_t per_operation = options_.chunks_per_operation;
  while (takes_ && network_.now() >= next_take_) {
    for (; expected_ < taken_ + options_.ahead; ++expected_)
      recv_->expect(nullptr, memory_.size(), {static_cast<std::uint32_t>(1 + expected_ / per_operation), 1});
    if (!recv_->poll()) return;
    recv_->release();
    ++taken_;
    if (take_pace_ > 0) next_take_ = network_.now() + take_pace_;
  }
}

}  // namespace tutti
