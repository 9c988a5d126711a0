#include "agent/exposition.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

namespace tutti::agent {
namespace {

void write_number(std::string& text, double value) {
  if (std::isnan(value))
    text += "NaN";
  else if (std::isinf(value))
    text += value > 0 ? "+Inf" : "-Inf";
  else
    fmt::format_to(std::back_inserter(text), "{}", value);
}

}  // namespace

Labels& Labels::add(std::string_view name, std::string_view value) {
  if (!text_.empty()) text_ += ',';
  text_.append(name).append("=\"");
  for (const char letter : value) {
    if (letter == '"' || letter == '\\' || letter == '\n') text_ += '\\';
    text_ += letter == '\n' ? 'n' : letter;
  }
  text_ += '"';
  return *this;
}

void Exposition::family(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type == Type::counter ? "counter" : "gauge");
}

void Exposition::sample(const Labels& labels, double value) {
  text_ += std::exchange(head_, "");
  text_ += name_;
  if (!labels.text().empty()) text_.append("{").append(labels.text()).append("}");
  text_ += ' ';
  write_number(text_, value);
  text_ += '\n';
}

std::string Exposition::take() {
  name_.clear();
  head_.clear();
  return std::exchange(text_, "");
}

}  // namespace tutti::agent
