#include "cli/support/lines.hpp"

namespace tutti::cli {

std::string Lines::feed(std::string_view data) {
  std::string complete;
  while (!data.empty()) {
    const std::size_t end = data.find('\n');
    partial_ += data.substr(0, end);
    if (end == std::string_view::npos) {
      if (partial_.size() >= kLongest) complete += finish();
      break;
    }
    complete += prefix_ + partial_ + '\n';
    partial_.clear();
    data.remove_prefix(end + 1);
  }
  return complete;
}

std::string Lines::finish() {
  if (partial_.empty()) return {};
  std::string line = prefix_ + partial_ + '\n';
  partial_.clear();
  return line;
}

}  // namespace tutti::cli
