// A link is the ordered stream of chunks from one rank to another on one channel; the engine sees these two ends,
// whatever lanes (shared memory, TCP connections, simulated ones) carry it.
//
// Both ends number chunks from 0 in program order, so the n-th chunk sent is the n-th chunk expected. Chunks have at
// most chunk_limit() bytes; zero is legal and still ordered. Every chunk carries the operation it belongs to; one that
// does not match what the receiver expects is reported, and none of its bytes are stored.
// Nothing here blocks. An end is used by one thread at a time (the owner of its operation). After an error every call
// is a no-op and error() tells why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tutti/error.hpp"

namespace tutti {

namespace monitor {
struct LinkRecord;
}

/// The operation a chunk belongs to, agreed by all ranks of a communicator: its number in call order, and a hash of
/// collective, count, type, operator and root.
struct OperationTag {
  std::uint32_t number = 0;
  std::uint32_t signature = 0;

  bool operator==(const OperationTag&) const = default;
};

/// What is on its way on a link, as far as this end knows.
enum class Transit : std::uint8_t {
  none,
  copies,  // small chunks that were copied, and are acknowledged late: they may have come long since
  chunks,  // chunks that are acknowledged when they have come, or of which the rest is awaited
};

class SendLink {
 public:
  virtual ~SendLink() = default;

  /// Offers the next chunk. False: no credit now, nothing happened; offer it again later.
  /// `data` must stay as it is until released() has passed this chunk.
  virtual bool send(const std::byte* data, std::size_t bytes, OperationTag tag) = 0;

  /// The same, but `data` is released without the receiver having to take the chunk: the link copies it where it would
  /// otherwise leave it to be pulled. For memory that the sender must be able to overwrite before it may receive.
  virtual bool send_copy(const std::byte* data, std::size_t bytes, OperationTag tag) { return send(data, bytes, tag); }

  /// How many chunks were accepted by send(), and how many of them (a prefix) need their memory no more.
  virtual std::uint64_t sent() const = 0;
  virtual std::uint64_t released() = 0;

  /// Returns what is on its way to the receiver. Always none where that takes no time.
  virtual Transit transit() const { return Transit::none; }

  virtual std::size_t chunk_limit() const = 0;
  virtual const Error* error() const = 0;

  /// From now on its counts are kept there, too.
  virtual void observe(monitor::LinkRecord& record) = 0;
};

/// A chunk that has come, where it lies: in the landing given to expect(), or in staging memory until release().
struct Arrival {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  OperationTag tag;
};

class RecvLink {
 public:
  virtual ~RecvLink() = default;

  /// Announces the next chunk in order, so that it may land in place; `landing` null: anywhere. It must stay valid
  /// until the chunk was released. May run ahead of arrival by any number of chunks.
  virtual void expect(std::byte* landing, std::size_t bytes, OperationTag tag) = 0;

  /// The oldest chunk not yet released, once it is here whole and was expected. Where its tag or size is not the
  /// expected one, data is null and tag and bytes say what came instead; the link stays at that chunk.
  virtual std::optional<Arrival> poll() = 0;

  /// Gives the chunk that poll() returned back; its staging memory may be reused.
  virtual void release() = 0;

  /// Returns whether a chunk is here in part, so that the rest of it is on its way. Always none where that takes no
  /// time.
  virtual Transit transit() const { return Transit::none; }

  virtual std::size_t chunk_limit() const = 0;
  virtual const Error* error() const = 0;
  virtual void observe(monitor::LinkRecord& record) = 0;
};

}  // namespace tutti
