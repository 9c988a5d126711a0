// What one process makes and hands to all ranks of a communicator, by whatever means it has, so that they find each
// other: where to meet, and the secret that lets them in. Treat it as a secret.
//
//   rank 0:  auto id = UniqueId::create();   send id->to_string() to the others
//   others:  auto id = UniqueId::from_string(text);
//
// 128 opaque bytes, the size of ncclUniqueId. One id serves one communicator: for create(), or for grow() and the
// newcomers that join(). A plain value; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tutti/error.hpp"

namespace tutti {

class UniqueId {
 public:
  static constexpr std::size_t kBytes = 128;
  using Bytes = std::array<std::byte, kBytes>;

  /// Opens the meeting point in this process: it must live until all ranks have joined. Reachable from other hosts
  /// where this one has an interface that is not loopback; TUTTI_INTERFACES, TUTTI_FAMILY and TUTTI_PORT_RANGE narrow
  /// where it listens.
  [[nodiscard]] static Result<UniqueId> create();

  /// Refuses what create() did not make, or what was damaged on the way.
  [[nodiscard]] static Result<UniqueId> from_bytes(const Bytes& bytes);
  /// The 256 hexadecimal digits of to_string().
  [[nodiscard]] static Result<UniqueId> from_string(std::string_view text);

  /// How many newcomers have come for grow() and wait; known only in the process that made the id, 0 elsewhere.
  int waiting() const;

  const Bytes& bytes() const { return bytes_; }
  std::string to_string() const;
  bool operator==(const UniqueId&) const = default;

 private:
  explicit UniqueId(const Bytes& bytes) : bytes_(bytes) {}

  Bytes bytes_{};
};

}  // namespace tutti
