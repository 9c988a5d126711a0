// Output of several ranks made into one, line by line, so that no line is mixed with another.
// One Lines per stream of a rank; one thread.
#pragma once

#include <string>
#include <string_view>

namespace tutti::cli {

class Lines {
 public:
  explicit Lines(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Takes what was read; returns the lines it completes, each with the prefix and its end of line.
  std::string feed(std::string_view data);
  /// The stream ended: what is left, as a line.
  std::string finish();

 private:
  // Something that writes without ever ending a line must not fill our memory.
  static constexpr std::size_t kLongest = 64 * 1024;

  std::string prefix_;
  std::string partial_;
};

}  // namespace tutti::cli
