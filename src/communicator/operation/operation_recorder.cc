#include "communicator/operation/operation_recorder.hpp"

#include <bit>

#include "base/settings.hpp"
#include "monitor/recorder.hpp"
#include "program/nccl_names.hpp"

namespace tutti {
namespace {

using monitor::CommunicatorRecord;
using monitor::EventKind;
using monitor::Recorder;

/// Between hosts a step takes so long that tracing each costs nothing to speak of.
constexpr std::uint64_t kTracedBetweenHosts = 64 << 10;

/// Plugins take the size of an element from here. For unsigned bytes NCCL has no name that they would know.
const char* nccl_type_name(DataType type) {
  static constexpr const char* kNames[kDataTypes] = {"ncclInt8",    "ncclInt8",    "ncclInt32",      "ncclUint32",
                                                     "ncclInt64",   "ncclUint64",  "ncclFloat16",    "ncclBfloat16",
                                                     "ncclFloat32", "ncclFloat64", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace

void OperationRecorder::open(std::uint64_t job) {
  Recorder& recorder = Recorder::of_process();
  CommunicatorRecord* const record = recorder.open_communicator(identity_.id);
  log_ = monitor::OperationLog(recorder.map(), record);
  if (record == nullptr) return;
  if (const int every = settings().monitor_steps; every > 0) {
    untraced_ = std::bit_ceil(static_cast<std::uint32_t>(every)) - 1;
    if (layout_.hosts > 1) traced_from_ = kTracedBetweenHosts;
  }
  const auto size = static_cast<int>(identity_.members.size());
  record->job.set(job);
  record->rank.set(identity_.rank);
  record->size.set(size);
  record->hosts.set(layout_.hosts);
  record->host.set(layout_.host_of_rank[static_cast<std::size_t>(identity_.rank)]);
  record->name.set(options_.name);
  record->state.set(CommunicatorRecord::alive);
  recorder.record({.kind = EventKind::communicator_created,
                   .communicator = identity_.id,
                   .rank = identity_.rank,
                   .values = {static_cast<double>(size)},
                   .text = options_.name});
}

void OperationRecorder::close() {
  if (record() == nullptr) return;
  Recorder& recorder = Recorder::of_process();
  recorder.record({.kind = EventKind::communicator_closed, .communicator = identity_.id, .rank = identity_.rank});
  recorder.close_communicator(record());
}

void OperationRecorder::open_profiler() {
  profiler::Profiler* const profiler = profiler::Profiler::of_process();
  if (profiler == nullptr) return;
  const auto size = static_cast<int>(identity_.members.size());
  profiler_ = profiler->open({identity_.id, options_.name, layout_.hosts, size, identity_.rank});
}

void OperationRecorder::broken(const Error& error) {
  if (record() == nullptr) return;
  record()->error.set(error.to_string());
  record()->state.set(CommunicatorRecord::broken);
  Recorder::of_process().record({.kind = EventKind::communicator_broken,
                                 .communicator = identity_.id,
                                 .rank = identity_.rank,
                                 .peer = error.peer,
                                 .text = error.message});
}

void OperationRecorder::late(const Operation& operation, int peer, double seconds) {
  Recorder::of_process().record({.kind = EventKind::rank_late,
                                 .communicator = identity_.id,
                                 .rank = identity_.rank,
                                 .peer = peer,
                                 .operation = operation.number(),
                                 .values = {seconds}});
}

void OperationRecorder::set_title(Operation& operation, const Plan& plan) const {
  const Call& call = operation.call;
  const bool sends = operation.is_point_to_point() && call.sends;
  monitor::Title& title = operation.title;
  title.what.collective = static_cast<std::uint8_t>(call.collective);
  title.what.type = static_cast<std::uint8_t>(call.type);
  title.what.op = static_cast<std::uint8_t>(call.reduction.op);
  const bool together = leaves_together(call.collective);
  title.what.flags =
      static_cast<std::uint8_t>((sends ? monitor::What::sends : 0) | (call.in_place ? monitor::What::in_place : 0) |
                                (together ? monitor::What::together : 0));
  title.bytes = bytes_of(call, static_cast<int>(identity_.members.size()));
  title.root = call.root;
  title.program = plan.recorded_as;
  title.workers = static_cast<std::uint32_t>(plan.workers.size());
}

void OperationRecorder::profile(Operation& operation, OperationTag tag, const Plan& plan, const void* send,
                                void* recv) {
  const Call& call = operation.call;
  profiler::ProfiledCall profiled;
  profiled.function = nccl_name_of(call.collective, call.sends);
  profiled.point_to_point = operation.is_point_to_point();
  profiled.type = nccl_type_name(call.type);
  profiled.count = call.uneven ? operation.title.bytes / size_of(call.type) : call.count;
  profiled.root = call.root;
  profiled.send = !profiled.point_to_point || call.sends ? send : nullptr;
  profiled.recv = recv;
  profiled.number = tag.number;
  profiled.program = plan.name;
  operation.profiled = profiler_->begin(profiled);
}

void OperationRecorder::waiting(const Operation& operation, std::uint64_t since) {
  monitor::Active* const active = operation.active;
  if (active == nullptr || operation.execution.state() != Execution::State::running) return;
  const Execution::Waiting waiting = operation.execution.waiting_for();
  active->awaited_since.set(since);
  active->awaited_in.set(static_cast<std::uint32_t>(waiting.worker & 0xffff) << 16 |
                         static_cast<std::uint32_t>(waiting.step & 0xffff));
  active->awaited.set(waiting.rank);
}

}  // namespace tutti
