// Two connections made one: what comes from either goes to the other. For lanes that go by way of a neighbour, whose
// network port works where one's own does not. Passive: its owner watches descriptor() for events() and calls
// advance(). One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.hpp"

namespace tutti {

class Relay {
 public:
  Relay(Fd one, Fd other);

  int descriptor(int side) const { return sockets_[side].get(); }
  /// EPOLLIN, EPOLLOUT: what to wait for.
  std::uint32_t events(int side) const;
  /// Moves what can be moved. False: one of the two is over, and so are both.
  bool advance();

 private:
  static constexpr std::size_t kBuffer = 512 << 10;
  /// What came from one side and is to go to the other.
  struct Stream {
    std::unique_ptr<std::byte[]> bytes = std::make_unique_for_overwrite<std::byte[]>(kBuffer);
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  bool move(int from, bool& moved);

  std::array<Fd, 2> sockets_;
  std::array<Stream, 2> streams_;  // by the side they come from
};

}  // namespace tutti
