#include "communicator/calls.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "reduce/reduce.hpp"

namespace tutti {
namespace {

tl::unexpected<Error> bad(const char* collective, const std::string& what) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", collective, what));
}

struct Checker {
  Caller caller;
  Collective collective;
  DataType type;
  int root;

  std::string label() const { return std::string(name_of(collective)); }

  Status values(const Reduction& reduction) const {
    if (static_cast<int>(type) >= kDataTypes)
      return bad(label().c_str(), fmt::format("{} is no data type", static_cast<int>(type)));
    if (reduces(collective))
      if (Status supported = supports(type, reduction); !supported)
        return bad(label().c_str(), supported.error().message);
    if (has_root(collective) && (root < 0 || root >= caller.size))
      return bad(label().c_str(), fmt::format("root {} is not in 0..{}", root, caller.size - 1));
    return {};
  }

  Status buffer(const void* memory, std::size_t elements, const char* side) const {
    if (elements == 0) return {};
    if (elements > (std::size_t{1} << 62) / size_of(type))
      return bad(label().c_str(), fmt::format("{} elements of {} overflow", elements, name_of(type)));
    if (memory == nullptr) return bad(label().c_str(), fmt::format("the {} buffer is null", side));
    if (reinterpret_cast<std::uintptr_t>(memory) % size_of(type) != 0)
      return bad(label().c_str(), fmt::format("the {} buffer {} is not aligned to {}", side, memory, name_of(type)));
    return {};
  }

  bool at_root() const { return caller.rank == root; }
  bool has_input() const {
    return (collective != Collective::broadcast && collective != Collective::scatter) || at_root();
  }
  bool has_output() const {
    return (collective != Collective::reduce && collective != Collective::gather) || at_root();
  }
};

std::size_t blocks_in(Collective collective, bool input, int size) {
  const bool all = collective == Collective::all_to_all ||
                   (input && (collective == Collective::reduce_scatter || collective == Collective::scatter)) ||
                   (!input && (collective == Collective::all_gather || collective == Collective::gather));
  return all ? static_cast<std::size_t>(size) : 1;
}

}  // namespace

bool is_in_place(Collective collective, const void* send, const void* recv, std::size_t own, std::size_t element) {
  if (send == nullptr || recv == nullptr) return false;
  const auto* const input = static_cast<const std::byte*>(send);
  const auto* const output = static_cast<const std::byte*>(recv);
  switch (collective) {
    case Collective::all_gather:
    case Collective::gather:
      return input == output + own * element;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return output == input + own * element;
    default:
      return input == output;
  }
}

bool fit_to_repeat(Caller caller, Collective collective, int root, const void*& send, void*& recv,
                   std::size_t element) {
  if (collective == Collective::barrier) return true;
  const Checker check{caller, collective, DataType::uint8, root};
  if (!check.has_input()) send = nullptr;
  if (!check.has_output()) recv = nullptr;
  const auto bits = reinterpret_cast<std::uintptr_t>(send) | reinterpret_cast<std::uintptr_t>(recv);
  return (send != nullptr || !check.has_input()) && (recv != nullptr || !check.has_output()) && bits % element == 0;
}

Result<Call> make_call(Caller caller, Collective collective, const void* send, void* recv, std::size_t count,
                       DataType type, const Reduction& reduction, int root) {
  const Checker check{caller, collective, type, root};
  if (Status values = check.values(reduction); !values) return tl::unexpected(values.error());
  const auto largest = (std::size_t{1} << 62) / static_cast<std::size_t>(caller.size);
  if (count > largest) return bad(check.label().c_str(), fmt::format("{} elements overflow", count));
  if (check.has_input())
    if (Status ok = check.buffer(send, count * blocks_in(collective, true, caller.size), "send"); !ok)
      return tl::unexpected(ok.error());
  if (check.has_output())
    if (Status ok = check.buffer(recv, count * blocks_in(collective, false, caller.size), "receive"); !ok)
      return tl::unexpected(ok.error());
  Call call;
  call.collective = collective;
  call.send = check.has_input() ? send : nullptr;
  call.recv = check.has_output() ? recv : nullptr;
  call.count = count;
  call.type = type;
  call.reduction = reduction;
  call.root = root;
  call.in_place = count > 0 && is_in_place(collective, call.send, call.recv,
                                           count * static_cast<std::size_t>(caller.rank), size_of(type));
  return call;
}

Result<Call> make_uneven_call(Caller caller, Collective collective, const void* send, Blocks send_blocks, void* recv,
                              Blocks recv_blocks, DataType type, const Reduction& reduction, int root) {
  const Checker check{caller, collective, type, root};
  if (Status values = check.values(reduction); !values) return tl::unexpected(values.error());
  const auto size = static_cast<std::size_t>(caller.size);
  for (const Blocks* blocks : {&send_blocks, &recv_blocks}) {
    if (blocks->counts.size() != size)
      return bad(check.label().c_str(), fmt::format("{} counts for {} ranks", blocks->counts.size(), size));
    if (!blocks->offsets.empty() && blocks->offsets.size() != size)
      return bad(check.label().c_str(), fmt::format("{} offsets for {} ranks", blocks->offsets.size(), size));
    std::size_t sum = 0;
    for (const std::size_t count : blocks->counts)
      if (count > (std::size_t{1} << 60) || (sum += count) > (std::size_t{1} << 60))
        return bad(check.label().c_str(), fmt::format("{} elements overflow", count));
  }
  const auto total = [](const Blocks& blocks) {
    return std::accumulate(blocks.counts.begin(), blocks.counts.end(), std::size_t{0});
  };
  const auto own = static_cast<std::size_t>(caller.rank);
  const bool one_in = blocks_in(collective, true, caller.size) == 1;
  const bool one_out = blocks_in(collective, false, caller.size) == 1;
  if (check.has_input())
    if (Status ok = check.buffer(send, one_in ? send_blocks.counts[own] : total(send_blocks), "send"); !ok)
      return tl::unexpected(ok.error());
  if (check.has_output())
    if (Status ok = check.buffer(recv, one_out ? recv_blocks.counts[own] : total(recv_blocks), "receive"); !ok)
      return tl::unexpected(ok.error());
  Call call;
  call.collective = collective;
  call.send = check.has_input() ? send : nullptr;
  call.recv = check.has_output() ? recv : nullptr;
  call.type = type;
  call.reduction = reduction;
  call.root = root;
  call.uneven = true;
  call.send_counts = send_blocks.counts;
  call.send_offsets = send_blocks.offsets;
  call.recv_counts = recv_blocks.counts;
  call.recv_offsets = recv_blocks.offsets;
  const Blocks& outer = one_in ? recv_blocks : send_blocks;
  const std::size_t before =
      outer.offsets.empty() ? std::accumulate(outer.counts.begin(),
                                              outer.counts.begin() + static_cast<std::ptrdiff_t>(own), std::size_t{0})
                            : outer.offsets[own];
  call.in_place = total(outer) > 0 && is_in_place(collective, call.send, call.recv, before, size_of(type));
  return call;
}

Result<Call> make_point_to_point_call(Caller caller, bool sends, void* data, std::size_t count, DataType type,
                                      int peer) {
  const char* const label = sends ? "send" : "recv";
  if (peer < 0 || peer >= caller.size) return bad(label, fmt::format("rank {} is not in 0..{}", peer, caller.size - 1));
  const Checker check{caller, Collective::point_to_point, type, 0};
  if (Status values = check.values({}); !values) return tl::unexpected(values.error());
  if (Status ok = check.buffer(data, count, sends ? "send" : "receive"); !ok) return tl::unexpected(ok.error());
  Call call;
  call.collective = Collective::point_to_point;
  call.send = sends ? data : nullptr;
  call.recv = sends ? nullptr : data;
  call.count = count;
  call.type = type;
  call.root = peer;
  call.sends = sends;
  return call;
}

}  // namespace tutti
