// What a communicator tells a profiler plugin, in NCCL's words.
#include "communicator/impl.hpp"
#include "profiler/profiler.hpp"
#include "program/nccl_names.hpp"

namespace tutti {
namespace {

/// Plugins take the size of an element from here. For unsigned bytes NCCL has no name that they would know.
const char* type_name(DataType type) {
  static constexpr const char* kNames[kDataTypes] = {"ncclInt8",    "ncclInt8",    "ncclInt32",      "ncclUint32",
                                                     "ncclInt64",   "ncclUint64",  "ncclFloat16",    "ncclBfloat16",
                                                     "ncclFloat32", "ncclFloat64", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace

void CommunicatorImpl::open_profiler() {
  profiler::Profiler* const profiler = profiler::Profiler::of_process();
  if (profiler == nullptr) return;
  profiler_ = profiler->open({identity_.id, options_.name, layout_.hosts, size(), rank()});
}

void CommunicatorImpl::close_profiler() {
  if (profiler_ == nullptr || !idle() || !take_token()) return;
  profiler_.reset();
  give_token();
}

void CommunicatorImpl::profile_entered(Operation& operation, OperationTag tag, const Plan& plan, const void* send,
                                       void* recv) {
  const Call& call = operation.call;
  profiler::Call told;
  told.function = nccl_name_of(call.collective, call.sends);
  told.point_to_point = call.collective == Collective::point_to_point;
  told.type = type_name(call.type);
  told.count = call.uneven ? bytes_of(call, size()) / size_of(call.type) : call.count;
  told.root = call.root;
  told.send = !told.point_to_point || call.sends ? send : nullptr;
  told.recv = recv;
  told.number = tag.number;
  told.program = plan.name;
  operation.profiled = profiler_->begin(told);
}

}  // namespace tutti
