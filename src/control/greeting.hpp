// What a process says first on a control connection: who it is, and whom it looks for. The other end replies in kind.
#pragma once

#include "base/process_id.hpp"
#include "base/wire.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Greeting {
  ProcessId from;
  ProcessId to;
  bool lifeline = false;  // nothing will be said on the connection: only its end tells something

  static constexpr std::size_t kBytes = 33;
  Blob encode() const;
  static Result<Greeting> decode(std::span<const std::byte> bytes);
};

}  // namespace tutti
