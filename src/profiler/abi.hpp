// What NCCL and its profiler plugins have agreed on: the binary interface of version 5, which a plugin exports as
// `ncclProfiler_v5`. Names are ours; order, size and place of what is in the structures are NCCL's and never change.
// Events that only NCCL's own machinery has (proxies, kernel launches, network plugins) are left out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::profiler::abi {

inline constexpr const char* kSymbol = "ncclProfiler_v5";

// Kinds of events; a plugin's mask is the sum of those it wants.
enum Kind : std::uint64_t {
  group = 1 << 0,
  collective = 1 << 1,
  point_to_point = 1 << 2,
  proxy_operation = 1 << 3,
  proxy_step = 1 << 4,
  kernel_channel = 1 << 6,
  network = 1 << 7,
  group_call = 1 << 8,
  collective_call = 1 << 9,
  point_to_point_call = 1 << 10,
  kernel_launch = 1 << 11,
};

enum State : int {
  kernel_channel_stops = 22,
  group_start_returns = 23,
  group_end_begins = 24,
};

struct GroupCall {
  bool captured;
  int depth;
};
struct CollectiveCall {
  const char* function;
  std::size_t count;
  const char* type;
  int root;
  void* stream;
  bool captured;
};
struct PointToPointCall {
  const char* function;
  std::size_t count;
  const char* type;
  void* stream;
  bool captured;
};
struct CollectiveOperation {
  std::uint64_t number;
  const char* function;
  const void* send;
  void* recv;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* group;
};
struct PointToPointOperation {
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;
};
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t began;  // ns
};

struct Description {
  std::uint64_t kind;
  void* parent;
  int rank;
  union {
    GroupCall group_call;
    CollectiveCall collective_call;
    PointToPointCall point_to_point_call;
    CollectiveOperation collective;
    PointToPointOperation point_to_point;
    KernelChannel kernel_channel;
  };
};
static_assert(offsetof(Description, group_call) == 24 && sizeof(Description) == 112);
static_assert(offsetof(CollectiveCall, stream) == 32 && offsetof(PointToPointCall, stream) == 24);
static_assert(offsetof(CollectiveOperation, type) == 48 && offsetof(CollectiveOperation, warps) == 57 &&
              sizeof(CollectiveOperation) == 88);
static_assert(offsetof(PointToPointOperation, channels) == 36 && offsetof(PointToPointOperation, group) == 40);
static_assert(offsetof(KernelChannel, began) == 8);

union StateArguments {
  std::uint64_t kernel_channel_stopped;  // ns
};
static_assert(sizeof(StateArguments) == 8);

enum class LogLevel : int { none, version, warn, info, abort, trace };
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

/// All return 0 where they succeed.
struct Plugin {
  const char* name;
  /// The mask is read at every operation: a plugin may change it at any time, and for all communicators at once.
  int (*init)(void** context, std::uint64_t communicator, int* mask, const char* name, int hosts, int ranks, int rank,
              Logger log);
  int (*start)(void* context, void** event, Description* description);
  int (*stop)(void* event);
  int (*record_state)(void* event, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};

}  // namespace tutti::profiler::abi
