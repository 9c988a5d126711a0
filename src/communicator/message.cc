#include "communicator/message.hpp"

#include <cstring>

namespace tutti {
namespace {

struct Header {
  std::uint8_t kind;
  std::uint8_t code;
  std::uint16_t reserved;
  std::int32_t from;
  std::int32_t to;
  std::int32_t peer;
  std::uint32_t number;
  std::uint32_t signature;
  std::uint32_t text_bytes;
  std::uint32_t body_bytes;
};

}  // namespace

std::vector<std::byte> Message::encode() const {
  const Header header{static_cast<std::uint8_t>(kind),
                      static_cast<std::uint8_t>(code),
                      0,
                      from,
                      to,
                      peer,
                      number,
                      signature,
                      static_cast<std::uint32_t>(text.size()),
                      static_cast<std::uint32_t>(body.size())};
  std::vector<std::byte> bytes(sizeof header + text.size() + body.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!text.empty()) std::memcpy(bytes.data() + sizeof header, text.data(), text.size());
  if (!body.empty()) std::memcpy(bytes.data() + sizeof header + text.size(), body.data(), body.size());
  return bytes;
}

Result<Message> Message::decode(std::span<const std::byte> bytes) {
  Header header{};
  if (bytes.size() < sizeof header) return fail(ErrorCode::refused, "a message is shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t rest = bytes.size() - sizeof header;
  if (header.kind > static_cast<std::uint8_t>(Kind::end_answer) ||
      header.code > static_cast<std::uint8_t>(ErrorCode::internal) || header.text_bytes > rest ||
      header.body_bytes != rest - header.text_bytes)
    return fail(ErrorCode::refused, "a message contradicts its header");
  Message message;
  message.kind = static_cast<Kind>(header.kind);
  message.code = static_cast<ErrorCode>(header.code);
  message.from = header.from;
  message.to = header.to;
  message.peer = header.peer;
  message.number = header.number;
  message.signature = header.signature;
  const std::byte* const text = bytes.data() + sizeof header;
  message.text.assign(reinterpret_cast<const char*>(text), header.text_bytes);
  message.body.assign(text + header.text_bytes, text + header.text_bytes + header.body_bytes);
  return message;
}

}  // namespace tutti
