// What `tutti demo` plays: each collective once, small enough to read, with what it must leave behind.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::cli {

/// What one rank plays scenes with: buffers of `count` floats, and who it is. `block` is a rank's even share; `counts`
/// and `offsets` split the buffer unevenly.
struct SceneBuffers {
  Communicator& communicator;
  int rank = 0;
  int ranks = 1;
  std::size_t count = 0;
  std::size_t block = 0;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  std::vector<float> send;
  std::vector<float> recv;

  SceneBuffers(Communicator& of, std::size_t elements);
  std::size_t own_count() const { return counts[static_cast<std::size_t>(rank)]; }
  /// What rank `of` has at `index` of its send buffer.
  float input(int of, std::size_t index) const;
  float sum(std::size_t index) const;
  void reset();
};

struct Scene {
  std::string name;
  std::function<Status(SceneBuffers&)> play;
  /// Elements of recv to look at on this rank, and what each must be.
  std::function<std::size_t(const SceneBuffers&)> received;
  std::function<float(const SceneBuffers&, std::size_t index)> expected;
};

std::vector<Scene> demo_scenes();

}  // namespace tutti::cli
