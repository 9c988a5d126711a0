#include "control/world/session.hpp"

#include "control/frame.hpp"

namespace tutti {

const Session::Frame& Session::push(Frame frame) {
  set_number(frame, ++sent_);
  kept_bytes_ += frame.size();
  kept_.push_back(std::move(frame));
  return kept_.back();
}

bool Session::acknowledged(std::uint64_t number) {
  if (number > sent_) return false;
  while (!kept_.empty() && sent_ - kept_.size() < number) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
  return true;
}

void Session::forget_kept() {
  kept_.clear();
  kept_bytes_ = 0;
}

Session::Arrival Session::arrived(std::uint64_t number, std::size_t bytes) {
  ++owed_frames_;
  owed_bytes_ += bytes;
  if (number <= received_) return Arrival::seen;
  if (number != received_ + 1) return Arrival::gap;
  received_ = number;
  return Arrival::next;
}

std::uint64_t Session::acknowledge() {
  owed_frames_ = 0;
  owed_bytes_ = 0;
  return received_;
}

}  // namespace tutti
