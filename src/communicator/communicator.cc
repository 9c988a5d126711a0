// The public API: arguments are checked, then handed on.
#include "tutti/communicator.hpp"

#include <utility>

#include "base/settings.hpp"
#include "communicator/calls.hpp"
#include "communicator/group.hpp"
#include "communicator/impl.hpp"
#include "communicator/install.hpp"
#include "communicator/traffic.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

Caller caller_of(const CommunicatorImpl& impl) { return {impl.rank(), impl.size()}; }

Status run(const std::shared_ptr<CommunicatorImpl>& impl, const Result<Call>& call) {
  if (!call) {
    Error error = call.error();
    error.rank = impl->rank();
    return tl::unexpected(std::move(error));
  }
  if (put_in_group(impl, *call)) return {};
  return impl->driver().run(*call);
}

std::size_t element_of(DataType type) { return static_cast<int>(type) < kDataTypes ? size_of(type) : 1; }

Status run(const std::shared_ptr<CommunicatorImpl>& impl, Collective collective, const void* send, void* recv,
           std::size_t count, DataType type, const Reduction& reduction = {}, int root = 0) {
  const void* input = send;
  void* output = recv;
  const std::size_t element = element_of(type);
  if (!in_group() && fit_to_repeat(caller_of(*impl), collective, root, input, output, element)) {
    const bool in_place =
        count > 0 && is_in_place(collective, input, output, count * static_cast<std::size_t>(impl->rank()), element);
    const CallKey call = CallKey::of(collective, type, reduction.op, in_place, true, root, count);
    if (std::optional<Status> repeated = impl->driver().repeat(call, input, output)) return std::move(*repeated);
  }
  return run(impl, make_call(caller_of(*impl), collective, send, recv, count, type, reduction, root));
}

Status run_point_to_point(const std::shared_ptr<CommunicatorImpl>& impl, bool sends, void* data, std::size_t count,
                          DataType type, int peer) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % element_of(type) == 0;
  if (!in_group() && data != nullptr && aligned) {
    const CallKey call = CallKey::of(Collective::point_to_point, type, Operator::sum, false, sends, peer, count);
    if (std::optional<Status> repeated = impl->driver().repeat(call, sends ? data : nullptr, sends ? nullptr : data))
      return std::move(*repeated);
  }
  return run(impl, make_point_to_point_call(caller_of(*impl), sends, data, count, type, peer));
}

}  // namespace

// Work -----------------------------------------------------------------------------------------------------------

bool Work::test() {
  if (state_ == nullptr || state_->done.load(std::memory_order_acquire)) return true;
  // Kept alive: the operation drops its communicator when it is done.
  if (const auto driver = state_->driver.lock()) driver->drive();
  return state_->done.load(std::memory_order_acquire);
}

Status Work::wait(double seconds) {
  if (state_ == nullptr) return {};
  const Deadline deadline = seconds > 0 ? Deadline::in(seconds) : Deadline::never();
  if (const auto driver = state_->driver.lock()) return driver->wait(*state_, deadline);
  if (state_->error != nullptr) return tl::unexpected(*state_->error);
  return {};
}

const Error* Work::error() const {
  if (state_ == nullptr || !state_->done.load(std::memory_order_acquire)) return nullptr;
  return state_->error.get();
}

// Communicator ---------------------------------------------------------------------------------------------------

Options Options::from_environment() {
  Options options;
  options.timeout = settings().operation_timeout;
  options.join_timeout = settings().join_timeout;
  options.reproducible = settings().reproducible;
  options.select = settings().select;
  return options;
}

Communicator::Communicator(std::shared_ptr<CommunicatorImpl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this == &other) return *this;
  if (impl_ != nullptr) impl_->close();
  impl_ = std::move(other.impl_);
  return *this;
}
Communicator::~Communicator() {
  if (impl_ != nullptr) impl_->close();
}

int Communicator::rank() const { return impl_->rank(); }
int Communicator::size() const { return impl_->size(); }
const HostLayout& Communicator::layout() const { return impl_->layout(); }
Status Communicator::status() const { return impl_->failure().status(); }

Status Communicator::select(std::string_view rules) {
  Result<std::vector<SelectionRule>> parsed = parse_rules(rules);
  if (!parsed) return tl::unexpected(parsed.error());
  return impl_->driver().configure([&](PlanCache& plans) { plans.set_rules(std::move(*parsed)); });
}

Status install_program(Communicator& communicator, Program program) {
  if (program.shape.ranks != communicator.size())
    return fail(ErrorCode::invalid_argument, "program " + program.name + " is of " +
                                                 std::to_string(program.shape.ranks) + " ranks, and there are " +
                                                 std::to_string(communicator.size()));
  Result<ProvenProgram> proven = prove(std::move(program), communicator.rank());
  if (!proven) return tl::unexpected(proven.error());
  return install_program(communicator, std::move(*proven));
}

Status install_program(Communicator& communicator, ProvenProgram program) {
  return communicator.impl_->driver().configure([&](PlanCache& plans) { plans.install(std::move(program)); });
}

TcpCounters network_traffic(const Communicator& communicator) {
  const Tcp* const tcp = communicator.impl_->job()->tcp();
  return tcp != nullptr ? tcp->counters() : TcpCounters{};
}

void Communicator::abort(std::string_view reason) {
  Error error;
  error.code = ErrorCode::aborted;
  error.rank = impl_->rank();
  error.peer = impl_->rank();
  error.message = "rank " + std::to_string(impl_->rank()) + " aborted: " + std::string(reason);
  impl_->failure().break_with(std::move(error), Notify::peers);
}

#define TUTTI_SUBMIT(...) submit(make_call(caller_of(*impl_), __VA_ARGS__))

Status Communicator::all_reduce(const void* send, void* recv, std::size_t count, DataType type, const Reduction& op) {
  return run(impl_, Collective::all_reduce, send, recv, count, type, op);
}
Status Communicator::reduce(const void* send, void* recv, std::size_t count, DataType type, const Reduction& op,
                            int root) {
  return run(impl_, Collective::reduce, send, recv, count, type, op, root);
}
Status Communicator::broadcast(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return run(impl_, Collective::broadcast, send, recv, count, type, {}, root);
}
Status Communicator::all_gather(const void* send, void* recv, std::size_t count, DataType type) {
  return run(impl_, Collective::all_gather, send, recv, count, type);
}
Status Communicator::reduce_scatter(const void* send, void* recv, std::size_t count, DataType type,
                                    const Reduction& op) {
  return run(impl_, Collective::reduce_scatter, send, recv, count, type, op);
}
Status Communicator::all_to_all(const void* send, void* recv, std::size_t count, DataType type) {
  return run(impl_, Collective::all_to_all, send, recv, count, type);
}
Status Communicator::gather(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return run(impl_, Collective::gather, send, recv, count, type, {}, root);
}
Status Communicator::scatter(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return run(impl_, Collective::scatter, send, recv, count, type, {}, root);
}
Status Communicator::barrier() { return run(impl_, Collective::barrier, nullptr, nullptr, 0, DataType::uint8); }

Status Communicator::all_gather_v(const void* send, void* recv, std::span<const std::size_t> counts,
                                  std::span<const std::size_t> offsets, DataType type) {
  return run(impl_, make_uneven_call(caller_of(*impl_), Collective::all_gather, send, {counts, {}}, recv,
                                     {counts, offsets}, type));
}
Status Communicator::reduce_scatter_v(const void* send, void* recv, std::span<const std::size_t> counts,
                                      std::span<const std::size_t> offsets, DataType type, const Reduction& op) {
  return run(impl_, make_uneven_call(caller_of(*impl_), Collective::reduce_scatter, send, {counts, offsets}, recv,
                                     {counts, {}}, type, op));
}
Status Communicator::all_to_all_v(const void* send, std::span<const std::size_t> send_counts,
                                  std::span<const std::size_t> send_offsets, void* recv,
                                  std::span<const std::size_t> recv_counts, std::span<const std::size_t> recv_offsets,
                                  DataType type) {
  return run(impl_, make_uneven_call(caller_of(*impl_), Collective::all_to_all, send, {send_counts, send_offsets}, recv,
                                     {recv_counts, recv_offsets}, type));
}
Status Communicator::gather_v(const void* send, std::size_t count, void* recv, std::span<const std::size_t> counts,
                              std::span<const std::size_t> offsets, DataType type, int root) {
  std::vector<std::size_t> own(static_cast<std::size_t>(size()), 0);
  own[static_cast<std::size_t>(rank())] = count;
  const bool at_root = rank() == root;
  return run(impl_, make_uneven_call(caller_of(*impl_), Collective::gather, send, {at_root ? counts : own, {}}, recv,
                                     {at_root ? counts : own, at_root ? offsets : std::span<const std::size_t>{}}, type,
                                     {}, root));
}
Status Communicator::scatter_v(const void* send, std::span<const std::size_t> counts,
                               std::span<const std::size_t> offsets, void* recv, std::size_t count, DataType type,
                               int root) {
  std::vector<std::size_t> own(static_cast<std::size_t>(size()), 0);
  own[static_cast<std::size_t>(rank())] = count;
  const bool at_root = rank() == root;
  return run(impl_, make_uneven_call(caller_of(*impl_), Collective::scatter, send,
                                     {at_root ? counts : own, at_root ? offsets : std::span<const std::size_t>{}}, recv,
                                     {at_root ? counts : own, {}}, type, {}, root));
}

Status Communicator::send(const void* data, std::size_t count, DataType type, int peer) {
  return run_point_to_point(impl_, true, const_cast<void*>(data), count, type, peer);
}
Status Communicator::recv(void* data, std::size_t count, DataType type, int peer) {
  return run_point_to_point(impl_, false, data, count, type, peer);
}

Result<Work> Communicator::submit(const Result<Call>& call) {
  if (!call) {
    Error error = call.error();
    error.rank = rank();
    return tl::unexpected(std::move(error));
  }
  if (in_group())
    return fail(ErrorCode::invalid_argument, "a group runs its operations together: use the blocking forms in it");
  return Work(impl_->driver().submit(*call));
}

Result<Work> Communicator::all_reduce_async(const void* send, void* recv, std::size_t count, DataType type,
                                            const Reduction& op) {
  return TUTTI_SUBMIT(Collective::all_reduce, send, recv, count, type, op);
}
Result<Work> Communicator::reduce_async(const void* send, void* recv, std::size_t count, DataType type,
                                        const Reduction& op, int root) {
  return TUTTI_SUBMIT(Collective::reduce, send, recv, count, type, op, root);
}
Result<Work> Communicator::broadcast_async(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return TUTTI_SUBMIT(Collective::broadcast, send, recv, count, type, {}, root);
}
Result<Work> Communicator::all_gather_async(const void* send, void* recv, std::size_t count, DataType type) {
  return TUTTI_SUBMIT(Collective::all_gather, send, recv, count, type);
}
Result<Work> Communicator::reduce_scatter_async(const void* send, void* recv, std::size_t count, DataType type,
                                                const Reduction& op) {
  return TUTTI_SUBMIT(Collective::reduce_scatter, send, recv, count, type, op);
}
Result<Work> Communicator::all_to_all_async(const void* send, void* recv, std::size_t count, DataType type) {
  return TUTTI_SUBMIT(Collective::all_to_all, send, recv, count, type);
}
Result<Work> Communicator::gather_async(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return TUTTI_SUBMIT(Collective::gather, send, recv, count, type, {}, root);
}
Result<Work> Communicator::scatter_async(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return TUTTI_SUBMIT(Collective::scatter, send, recv, count, type, {}, root);
}
Result<Work> Communicator::barrier_async() {
  return TUTTI_SUBMIT(Collective::barrier, nullptr, nullptr, 0, DataType::uint8);
}
Result<Work> Communicator::send_async(const void* data, std::size_t count, DataType type, int peer) {
  return submit(make_point_to_point_call(caller_of(*impl_), true, const_cast<void*>(data), count, type, peer));
}
Result<Work> Communicator::recv_async(void* data, std::size_t count, DataType type, int peer) {
  return submit(make_point_to_point_call(caller_of(*impl_), false, data, count, type, peer));
}

}  // namespace tutti
