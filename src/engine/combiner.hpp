// The arithmetic of one call: combines operands as its reduction says.
#pragma once

#include <cstddef>

#include "engine/call.hpp"
#include "reduce/reduce.hpp"

namespace tutti {

class Combiner {
 public:
  void bind(const Call& call, int ranks);

  /// Combines `bytes` of every source, in order, into every target. Targets may be among the sources. `completes`: all
  /// ranks are in it, so that an average is divided.
  void combine(void* const* targets, int target_count, const void* const* sources, int source_count, std::size_t bytes,
               bool completes) const;
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) const {
    tutti::copy(target, source, bytes, stream_);
  }
  /// Whether stores bypass the caches.
  bool streams() const { return stream_; }

 private:
  void apply_user_function(void* const* targets, int target_count, const void* const* sources, int source_count,
                           std::size_t bytes) const;

  DataType type_ = DataType::uint8;
  Reduction reduction_;
  ReduceKernel kernel_ = nullptr;
  int ranks_ = 1;
  bool stream_ = false;
};

}  // namespace tutti
