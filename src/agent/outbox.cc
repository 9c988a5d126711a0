#include "agent/outbox.hpp"

#include <utility>

#include "agent/event_line.hpp"

namespace tutti::agent {
namespace {

constexpr std::size_t kBatchBytes = 4096;  // what a pipe that is ready takes without waiting

}  // namespace

void Outbox::push(std::string line) {
  line += '\n';
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  while (bytes_ > most_bytes_ && lines_.size() > 1) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++dropped_;
    ++untold_;
  }
}

std::string_view Outbox::batch() {
  if (written_ == batch_.size()) {
    batch_.clear();
    written_ = 0;
    if (untold_ != 0) batch_ = dropped_json_line(std::exchange(untold_, 0)) + '\n';
    while (!lines_.empty() && (batch_.empty() || batch_.size() + lines_.front().size() <= kBatchBytes)) {
      bytes_ -= lines_.front().size();
      batch_ += lines_.front();
      lines_.pop_front();
    }
  }
  return std::string_view(batch_).substr(written_);
}

}  // namespace tutti::agent
