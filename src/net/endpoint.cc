#include "net/endpoint.hpp"

#include <fmt/core.h>

#include <charconv>

namespace tutti {
namespace {

bool parse_hexadecimal(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string Endpoint::to_string() const {
  std::string text = id.to_string();
  for (const SocketAddress& address : addresses) text += " " + address.to_string();
  if (!local_path.empty()) text += " " + local_path;
  return text;
}

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is no endpoint: expected 32 hexadecimal digits and addresses", text));
  };
  Endpoint endpoint;
  if (text.size() < 32 || !parse_hexadecimal(text.substr(0, 16), endpoint.id.high) ||
      !parse_hexadecimal(text.substr(16, 16), endpoint.id.low))
    return wrong();
  std::string_view rest = text.substr(32);
  while (!rest.empty()) {
    if (rest.front() != ' ') return wrong();
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    if (word.starts_with('/')) {
      endpoint.local_path = word;
      continue;
    }
    const auto address = SocketAddress::parse(word);
    if (!address) return tl::unexpected(address.error());
    endpoint.addresses.push_back(*address);
  }
  return endpoint;
}

}  // namespace tutti
