#include "control/greeting.hpp"

namespace tutti {

Blob Greeting::encode() const {
  WireWriter out;
  for (const ProcessId& id : {from, to}) {
    out.put(id.high);
    out.put(id.low);
  }
  out.put(static_cast<std::uint8_t>(lifeline ? 1 : 0));
  return out.take();
}

Result<Greeting> Greeting::decode(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  Greeting greeting;
  for (ProcessId* id : {&greeting.from, &greeting.to}) {
    id->high = in.get<std::uint64_t>();
    id->low = in.get<std::uint64_t>();
  }
  greeting.lifeline = in.get<std::uint8_t>() != 0;
  if (!in.complete()) return fail(ErrorCode::refused, "the greeting is damaged");
  return greeting;
}

}  // namespace tutti
