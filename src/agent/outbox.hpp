// Lines on their way out, to a file or a peer that may not take them now. Bounded: where there is no room the oldest
// goes, is counted, and a line says so in its place. What is being written is whole lines, at most 4096 bytes of them
// unless one line has more. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace tutti::agent {

class Outbox {
 public:
  explicit Outbox(std::size_t most_bytes = std::size_t{1} << 20) : most_bytes_(most_bytes) {}

  /// Without the end of the line.
  void push(std::string line);
  /// What is to be written next; empty: nothing. The same until it was all written.
  std::string_view batch();
  void wrote(std::size_t bytes) { written_ += bytes; }
  /// What was written of the batch went nowhere: it is written again, whole.
  void restart() { written_ = 0; }

  bool is_empty() const { return lines_.empty() && written_ == batch_.size(); }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::size_t most_bytes_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;  // of lines_
  std::string batch_;
  std::size_t written_ = 0;  // of the batch
  std::uint64_t dropped_ = 0, untold_ = 0;
};

}  // namespace tutti::agent
