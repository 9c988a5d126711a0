// What a communicator tells a profiler plugin, in NCCL's words.
#include "communicator/impl.hpp"
#include "profiler/profiler.hpp"

namespace tutti {
namespace {

const char* function_name(const Call& call) {
  switch (call.collective) {
    case Collective::all_reduce:
      return "AllReduce";
    case Collective::reduce:
      return "Reduce";
    case Collective::broadcast:
      return "Broadcast";
    case Collective::all_gather:
      return "AllGather";
    case Collective::reduce_scatter:
      return "ReduceScatter";
    case Collective::all_to_all:
      return "AlltoAll";
    case Collective::gather:
      return "Gather";
    case Collective::scatter:
      return "Scatter";
    case Collective::barrier:
      return "Barrier";  // NCCL has none
    case Collective::point_to_point:
      return call.sends ? "Send" : "Recv";
  }
  return "Invalid";
}

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

void CommunicatorImpl::let_go() {
  if (profiler_ == nullptr || !idle() || !take_token()) return;
  profiler_.reset();
  give_token();
}

void CommunicatorImpl::profile_entered(Operation& operation, OperationTag tag, const Plan& plan, const void* send,
                                       void* recv) {
  const Call& call = operation.call;
  profiler::Call told;
  told.function = function_name(call);
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
