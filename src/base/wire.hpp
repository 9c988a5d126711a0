// Numbers, byte strings and sets as bytes, for messages between processes of one machine type. A reader checks every
// length; once something does not fit, it is not ok() and yields zeros. Values; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {

using Blob = std::vector<std::byte>;

class WireWriter {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    put_struct(value);
  }
  /// A plain struct, as it lies in memory.
  template <typename T>
  void put_struct(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_raw(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    put_raw(bytes);
  }
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }
  void put_set(const std::vector<bool>& set) {
    for (std::size_t first = 0; first < set.size(); first += 8) {
      std::uint8_t packed = 0;
      for (std::size_t bit = 0; bit < 8 && first + bit < set.size(); ++bit)
        packed |= static_cast<std::uint8_t>(set[first + bit] << bit);
      put(packed);
    }
  }
  void put_raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    return get_struct<T>();
  }
  template <typename T>
  T get_struct() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const auto raw = view(sizeof(T)); !raw.empty()) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  std::vector<std::byte> get_bytes() {
    const auto raw = view(get<std::uint32_t>());
    return {raw.begin(), raw.end()};
  }
  std::string get_text() {
    const auto raw = view(get<std::uint32_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::vector<bool> get_set(std::size_t size) {
    std::vector<bool> set(size);
    const auto raw = view((size + 7) / 8);
    for (std::size_t at = 0; at < size && !raw.empty(); ++at)
      set[at] = ((std::to_integer<unsigned>(raw[at / 8]) >> (at % 8)) & 1u) != 0;
    return set;
  }
  /// Bytes where they lie, not copied.
  std::span<const std::byte> view(std::size_t bytes) {
    if (bytes > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  std::span<const std::byte> rest() const { return rest_; }

  bool ok() const { return ok_; }
  /// Everything was read, and it fitted.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace tutti
