// What a communicator writes into its process's recording.
#include <bit>

#include "base/settings.hpp"
#include "communicator/impl.hpp"
#include "communicator/job.hpp"
#include "monitor/recorder.hpp"

namespace tutti {
namespace {

using monitor::CommunicatorRecord;
using monitor::EventKind;
using monitor::Recorder;

/// Between hosts a step takes so long that tracing each costs nothing to speak of.
constexpr std::uint64_t kTracedBetweenHosts = 64 << 10;

bool is_collective(const Operation& operation) { return operation.call.collective != Collective::point_to_point; }

}  // namespace

void CommunicatorImpl::open_record() {
  Recorder& recorder = Recorder::of_process();
  CommunicatorRecord* const record = recorder.open_communicator(identity_.id);
  log_ = monitor::OperationLog(recorder.map(), record);
  if (record == nullptr) return;
  if (const int every = settings().monitor_steps; every > 0) {
    untraced_ = std::bit_ceil(static_cast<std::uint32_t>(every)) - 1;
    if (layout_.hosts > 1) traced_from_ = kTracedBetweenHosts;
  }
  record->job.set(job_->id() != 0 ? job_->id() : identity_.id);
  record->rank.set(rank());
  record->size.set(size());
  record->hosts.set(layout_.hosts);
  record->host.set(layout_.host_of_rank[static_cast<std::size_t>(rank())]);
  record->name.set(options_.name);
  record->state.set(CommunicatorRecord::alive);
  recorder.tell({.kind = EventKind::communicator_created,
                 .communicator = identity_.id,
                 .rank = rank(),
                 .values = {static_cast<double>(size())},
                 .text = options_.name});
}

void CommunicatorImpl::close_record() {
  if (log_.record() == nullptr) return;
  Recorder& recorder = Recorder::of_process();
  recorder.tell({.kind = EventKind::communicator_closed, .communicator = identity_.id, .rank = rank()});
  recorder.close_communicator(log_.record());
}

void CommunicatorImpl::record_broken(const Error& error) {
  if (log_.record() == nullptr) return;
  log_.record()->error.set(error.to_string());
  log_.record()->state.set(CommunicatorRecord::broken);
  Recorder::of_process().tell({.kind = EventKind::communicator_broken,
                               .communicator = identity_.id,
                               .rank = rank(),
                               .peer = error.peer,
                               .text = error.message});
}

void CommunicatorImpl::record_late(const Operation& operation, int peer, double seconds) {
  Recorder::of_process().tell({.kind = EventKind::rank_late,
                               .communicator = identity_.id,
                               .rank = rank(),
                               .peer = peer,
                               .operation = operation.execution.tag().number,
                               .values = {seconds}});
}

monitor::Title CommunicatorImpl::title_of(const Operation& operation, const Plan& plan) const {
  const Call& call = operation.call;
  monitor::Title title;
  title.what.collective = static_cast<std::uint8_t>(call.collective);
  title.what.type = static_cast<std::uint8_t>(call.type);
  title.what.op = static_cast<std::uint8_t>(call.reduction.op);
  title.what.flags = static_cast<std::uint8_t>((is_collective(operation) || !call.sends ? 0 : monitor::What::sends) |
                                               (call.in_place ? monitor::What::in_place : 0));
  title.bytes = bytes_of(call, size());
  title.root = call.root;
  title.program = plan.recorded_as;
  title.workers = static_cast<std::uint32_t>(plan.workers.size());
  return title;
}

void CommunicatorImpl::record_entered(Operation& operation, OperationTag tag) {
  if (log_.record() == nullptr) return;
  operation.recorded = true;
  operation.active = log_.enter(operation.title, tag.number, tag.signature, is_collective(operation));
  // By its number, so that all ranks trace the same ones.
  const bool traced = (tag.number & untraced_) == 0 || operation.title.bytes >= traced_from_;
  operation.execution.observe(operation.active, traced && operation.active != nullptr ? &log_ : nullptr);
}

void CommunicatorImpl::record_left(Operation& operation, bool failed) {
  if (operation.recorded) log_.leave(operation.active, failed, is_collective(operation));
  operation.recorded = false;
  operation.active = nullptr;
}

/// Whom the operation waits for, while there is time to say so.
void CommunicatorImpl::record_waiting(const Operation& operation, std::uint64_t since) {
  monitor::Active* const active = operation.active;
  if (active == nullptr || operation.execution.state() != Execution::State::running) return;
  const Execution::Waiting waiting = operation.execution.waiting_for();
  active->awaited_since.set(since);
  active->awaited_in.set(static_cast<std::uint32_t>(waiting.worker & 0xffff) << 16 |
                         static_cast<std::uint32_t>(waiting.step & 0xffff));
  active->awaited.set(waiting.rank);
}

void CommunicatorImpl::record_woken(const Operation& operation) {
  if (operation.active != nullptr) operation.active->awaited.set(-1);
}

}  // namespace tutti
