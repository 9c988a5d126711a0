// Text in the format Prometheus scrapes (version 0.0.4), and nothing that could make it invalid: labels are escaped,
// numbers written as Prometheus reads them. One thread.
#pragma once

#include <string>
#include <string_view>

namespace tutti::agent {

/// `name="value",...`, made once and used for many samples.
class Labels {
 public:
  Labels& add(std::string_view name, std::string_view value);
  Labels& add(std::string_view name, long value) { return add(name, std::string_view(std::to_string(value))); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Exposition {
 public:
  enum class Type { gauge, counter };

  /// What the samples after it belong to. It is written with its first sample.
  void family(std::string_view name, Type type, std::string_view help);
  void sample(const Labels& labels, double value);
  std::string take();

 private:
  std::string name_, head_;
  std::string text_;
};

}  // namespace tutti::agent
