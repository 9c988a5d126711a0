#include "communicator/job/message.hpp"

#include "base/wire.hpp"

namespace tutti {

std::vector<std::byte> Message::encode() const {
  WireWriter writer;
  writer.put(kind);
  writer.put(static_cast<std::uint8_t>(code));
  writer.put(std::int32_t{from});
  writer.put(std::int32_t{to});
  writer.put(std::int32_t{peer});
  writer.put(number);
  writer.put(signature);
  writer.put_text(text);
  writer.put_bytes(body);
  return writer.take();
}

Result<Message> Message::decode(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  Message message;
  message.kind = reader.get<Kind>();
  message.code = static_cast<ErrorCode>(reader.get<std::uint8_t>());
  message.from = reader.get<std::int32_t>();
  message.to = reader.get<std::int32_t>();
  message.peer = reader.get<std::int32_t>();
  message.number = reader.get<std::uint32_t>();
  message.signature = reader.get<std::uint32_t>();
  message.text = reader.get_text();
  message.body = reader.get_bytes();
  if (!reader.complete() || message.kind > Kind::left || message.code > ErrorCode::internal)
    return fail(ErrorCode::refused, "a message is damaged");
  return message;
}

}  // namespace tutti
