// Tells a plugin made for NCCL's profiler interface (version 5) of our operations. Each is what NCCL would make of a
// call outside a group:
//
//   group call ─ collective call (or point-to-point call) ─ operation ─ kernel channel 0
//   group      ─ operation (its second parent, for plugins of older versions)
//
// All last from when the operation is taken up until it is done. We have no kernels: the one channel is the operation
// itself, stamped by the host's time of day, since plugins such as Inspector take the duration from there.
//
// Profiler: any thread. ProfiledCommunicator: one thread at a time. A plugin runs on the caller's thread; what it
// costs, and what it breaks, is its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "profiler/abi.hpp"

namespace tutti::profiler {

/// An operation the plugin was told of. Empty: of none.
struct ProfiledOperation {
  void* group_call = nullptr;
  void* call = nullptr;
  void* group = nullptr;
  void* operation = nullptr;
  void* channel = nullptr;
  bool begun = false;
};

/// What is said of an operation.
struct ProfiledCall {
  const char* function = "";  // as NCCL names it; must outlive the process
  bool point_to_point = false;
  const char* type = "";  // likewise
  std::size_t count = 0;
  int root = 0;  // point to point: the peer
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t number = 0;  // in call order
  std::string_view program;
};

class ProfiledCommunicator;

class Profiler {
 public:
  /// The plugin of the settings, loaded at first use. Null: there is none, or it cannot be loaded, which is warned of.
  static Profiler* of_process();

  /// `plugin` must outlive it.
  explicit Profiler(const abi::Plugin& plugin) : plugin_(plugin) {}

  struct CommunicatorDescription {
    std::uint64_t id = 0;
    std::string name;
    int hosts = 1;
    int size = 1;
    int rank = 0;
  };
  /// Null where the plugin fails, which is warned of. The profiler must outlive what is opened.
  std::unique_ptr<ProfiledCommunicator> open(const CommunicatorDescription& communicator);

 private:
  friend class ProfiledCommunicator;
  std::uint64_t mask() const;
  const char* keep(std::string_view text);

  const abi::Plugin& plugin_;
  mutable int mask_ = 0;  // the plugin writes it, from any thread
  std::mutex mutex_;
  std::set<std::string, std::less<>> texts_;  // plugins keep pointers to what they were told
};

class ProfiledCommunicator {
 public:
  ~ProfiledCommunicator();
  ProfiledCommunicator(const ProfiledCommunicator&) = delete;
  ProfiledCommunicator& operator=(const ProfiledCommunicator&) = delete;

  ProfiledOperation begin(const ProfiledCall& call);
  /// Of one that was not begun: nothing.
  void end(ProfiledOperation& operation);

 private:
  friend class Profiler;
  ProfiledCommunicator(Profiler& profiler, int rank) : profiler_(profiler), rank_(rank) {}
  void* start(abi::Description description);
  void record(void* event, abi::State state, std::uint64_t at = 0);
  void* start_call(const ProfiledCall& call, void* group_call);
  void* start_operation(const ProfiledCall& call, const ProfiledOperation& parents);

  Profiler& profiler_;
  const int rank_;
  void* context_ = nullptr;
};

}  // namespace tutti::profiler
