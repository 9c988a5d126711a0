#include "control/frame.hpp"

#include <cstring>

#include "base/wire.hpp"

namespace tutti {

std::vector<std::byte> encode_frame(ControlFrame kind, std::span<const std::byte> payload) {
  const std::size_t number_bytes = is_numbered(kind) ? sizeof(std::uint64_t) : 0;
  WireWriter out;
  out.put(static_cast<std::uint32_t>(number_bytes + payload.size()));
  out.put(kind);
  if (is_numbered(kind)) out.put(std::uint64_t{0});
  out.put_raw(payload);
  return out.take();
}

void set_number(std::span<std::byte> frame, std::uint64_t number) {
  std::memcpy(frame.subspan(kFrameHeader).data(), &number, sizeof number);
}

}  // namespace tutti
