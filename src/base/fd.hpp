// Owners of descriptors and mappings. Descriptors tutti opens are close-on-exec; those named here are also closed in
// children made by fork (data loaders fork), so that a killed parent is seen as dead by its peers.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "tutti/error.hpp"

namespace tutti {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int descriptor);  // takes ownership
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void reset();

 private:
  int descriptor_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  ~Mapping() { reset(); }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;

  /// Maps `bytes` of the descriptor, shared, readable and writable.
  static Result<Mapping> of(int descriptor, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void reset();

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// "what: strerror(errno)" as ErrorCode::system.
tl::unexpected<Error> system_error(const std::string& what);

}  // namespace tutti
