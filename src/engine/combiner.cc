#include "engine/combiner.hpp"

#include <cstring>
#include <vector>

namespace tutti {
namespace {

/// If the targets of a host's ranks together take more than this, they leave the caches anyway, so stores bypass them.
constexpr std::size_t kStreamBytes = 32 << 20;

}  // namespace

void Combiner::bind(const Call& call, int ranks) {
  type_ = call.type;
  reduction_ = call.reduction;
  ranks_ = ranks;
  const bool has_kernel = reduces(call.collective) && call.reduction.op != Operator::user;
  kernel_ = has_kernel ? find_kernel(call.type, call.reduction.op) : nullptr;
  stream_ = bytes_of(call, ranks) >= kStreamBytes / static_cast<std::size_t>(ranks);
}

void Combiner::combine(void* const* targets, int target_count, const void* const* sources, int source_count,
                       std::size_t bytes, bool completes) const {
  if (bytes == 0) return;
  if (reduction_.op == Operator::user) return apply_user_function(targets, target_count, sources, source_count, bytes);
  ReduceCall call;
  call.targets = targets;
  call.target_count = target_count;
  call.sources = sources;
  call.source_count = source_count;
  call.elements = bytes / size_of(type_);
  if (completes && reduction_.op == Operator::average) {
    call.scale = 1.0 / ranks_;
    call.divisor = ranks_;
  }
  call.stream = stream_;
  kernel_(call);
}

/// Goes through a temporary: a target may be one of the later sources.
void Combiner::apply_user_function(void* const* targets, int target_count, const void* const* sources, int source_count,
                                   std::size_t bytes) const {
  const std::size_t elements = bytes / size_of(type_);
  std::vector<std::byte> result(bytes);
  std::memcpy(result.data(), sources[0], bytes);
  for (int i = 1; i < source_count; ++i)
    reduction_.function(result.data(), sources[i], result.data(), elements, type_, reduction_.context);
  for (int i = 0; i < target_count; ++i) std::memcpy(targets[i], result.data(), bytes);
}

}  // namespace tutti
