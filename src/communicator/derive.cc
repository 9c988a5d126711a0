// Communicators made from one there is: split, duplicate, shrink.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <numeric>
#include <utility>

#include "communicator/calls.hpp"
#include "communicator/impl.hpp"
#include "control/agreement.hpp"

namespace tutti {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 31);
}

/// Gathers one plain value of every rank.
template <typename Value>
Result<std::vector<Value>> gather_values(CommunicatorImpl& impl, const Value& mine) {
  std::vector<Value> all(static_cast<std::size_t>(impl.size()));
  const Result<Call> call =
      make_call({impl.rank(), impl.size()}, Collective::all_gather, &mine, all.data(), sizeof(Value), DataType::uint8);
  if (!call) return tl::unexpected(call.error());
  if (Status done = impl.run(*call); !done) return tl::unexpected(done.error());
  return all;
}

/// How a rank fared in a step that all ranks must pass, in a form that travels.
struct Outcome {
  bool failed = false;
  ErrorCode code = ErrorCode::internal;
  char message[256] = {};

  Outcome() = default;
  explicit Outcome(const Error& error) : failed(true), code(error.code) {
    error.message.copy(message, sizeof message - 1);
  }
};

/// What a rank brings to a communicator that is to be made.
struct Offer {
  Outcome outcome;
  SegmentName segment;
};

/// Fails on all ranks alike if any has failed, with the reason of the first that has: one that returned alone would
/// leave the others waiting for it.
Status all_well(CommunicatorImpl& impl, const char* call, const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const Outcome& outcome = outcomes[rank];
    if (!outcome.failed) continue;
    Error error;
    error.code = outcome.code;
    error.rank = impl.rank();
    error.peer = static_cast<int>(rank);
    error.operation = call;
    error.message = fmt::format("rank {} failed: {}", rank, outcome.message);
    return tl::unexpected(std::move(error));
  }
  return {};
}

struct Wish {
  std::int32_t color;
  std::int32_t key;
};

/// The identity of a communicator of some of the parent's ranks, once their new segments are known.
Identity identity_of(const CommunicatorImpl& parent, const std::vector<int>& ranks,
                     const std::vector<SegmentName>& segments, std::uint64_t seed) {
  Identity identity;
  identity.seats.total = static_cast<int>(ranks.size());
  identity.id = mix(parent.identity().id, seed);
  identity.settled = true;
  identity.pull = parent.identity().pull;
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    if (ranks[index] == parent.rank()) identity.rank = static_cast<int>(index);
    Member member = parent.identity().members[static_cast<std::size_t>(ranks[index])];
    member.segment = segments[index];
    identity.members.push_back(member);
    identity.id = mix(identity.id, segments[index].nonce);
  }
  return identity;
}

/// An agreement under way, fed by the calling thread and by whoever delivers messages.
class Deliberation : public std::enable_shared_from_this<Deliberation> {
 public:
  Deliberation(const std::shared_ptr<CommunicatorImpl>& impl, double seconds)
      : impl_(impl), agreement_(impl->size(), impl->rank(), {seconds, 1.0}) {}

  Result<Survivors> run(Blob blob) {
    const auto impl = impl_.lock();
    impl->on_agreement([self = shared_from_this()](const Message& message) { self->hear(message); });
    std::unique_lock lock(mutex_);
    dead_ = impl->dead_ranks();
    agreement_.start(now(), dead_, std::move(blob));
    while (!agreement_.result()) {
      flush(lock);
      if (agreement_.result()) break;
      const double wait = std::clamp(agreement_.next_tick() - now(), 0.001, 0.05);
      changed_.wait_for(lock, std::chrono::duration<double>(wait));
      for (const int rank : impl->dead_ranks())
        if (std::find(dead_.begin(), dead_.end(), rank) == dead_.end()) {
          dead_.push_back(rank);
          agreement_.on_death(now(), rank);
        }
      agreement_.tick(now());
    }
    flush(lock);
    return *agreement_.result();
  }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void hear(const Message& message) {
    std::unique_lock lock(mutex_);
    agreement_.on_message(now(), message.from, message.body);
    flush(lock);
    changed_.notify_all();
  }

  /// Sends what is to be sent, unlocked: in one process delivery may come back to us.
  void flush(std::unique_lock<std::mutex>& lock) {
    const auto impl = impl_.lock();
    auto outgoing = agreement_.take_outgoing();
    if (outgoing.empty() || impl == nullptr) return;
    lock.unlock();
    for (auto& each : outgoing) {
      Message message;
      message.kind = Message::Kind::agreement;
      message.from = impl->rank();
      message.to = each.member;
      message.body = std::move(each.bytes);
      const int process = impl->identity().members[static_cast<std::size_t>(each.member)].process;
      impl->job()->send(impl->identity().id, process, message);
    }
    lock.lock();
  }

  std::weak_ptr<CommunicatorImpl> impl_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Agreement agreement_;
  std::vector<int> dead_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key) {
  const Result<std::vector<Wish>> wishes = gather_values(*impl_, Wish{color, key});
  if (!wishes) return tl::unexpected(wishes.error());
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if ((*wishes)[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return (*wishes)[static_cast<std::size_t>(a)].key < (*wishes)[static_cast<std::size_t>(b)].key;
  });
  Result<Segment> segment = fail(ErrorCode::internal, "no segment is needed");
  if (color >= 0) segment = Segment::create(static_cast<int>(ranks.size()));
  Offer mine;
  if (segment)
    mine.segment = segment->name();
  else if (color >= 0)
    mine.outcome = Outcome(segment.error());
  const Result<std::vector<Offer>> offers = gather_values(*impl_, mine);
  if (!offers) return tl::unexpected(offers.error());
  std::vector<Outcome> outcomes;
  for (const Offer& each : *offers) outcomes.push_back(each.outcome);
  if (Status well = all_well(*impl_, "split", outcomes); !well) return tl::unexpected(well.error());
  const std::uint64_t child = impl_->next_child();
  std::vector<SegmentName> chosen;
  for (const int rank : ranks) chosen.push_back((*offers)[static_cast<std::size_t>(rank)].segment);
  Result<std::shared_ptr<CommunicatorImpl>> impl = nullptr;
  if (color >= 0)
    impl = CommunicatorImpl::create(impl_->job(), identity_of(*impl_, ranks, chosen, child), std::move(*segment),
                                    impl_->options());
  const Result<std::vector<Outcome>> made = gather_values(*impl_, impl ? Outcome() : Outcome(impl.error()));
  if (!made) return tl::unexpected(made.error());
  if (Status well = all_well(*impl_, "split", *made); !well) return tl::unexpected(well.error());
  if (color < 0) return nullptr;
  return std::unique_ptr<Communicator>(new Communicator(std::move(*impl)));
}

Result<Communicator> Communicator::duplicate() {
  Result<std::unique_ptr<Communicator>> copy = split(0, rank());
  if (!copy) return tl::unexpected(copy.error());
  return std::move(**copy);
}

Result<Communicator> Communicator::shrink(double seconds) {
  // Nothing of this communicator may move any more, here or on the others.
  Error error;
  error.code = ErrorCode::aborted;
  error.message = fmt::format("rank {} shrinks the communicator", rank());
  impl_->break_with(std::move(error), true);
  Result<Segment> segment = Segment::create(size());
  if (!segment) return tl::unexpected(segment.error());
  const SegmentName& name = segment->name();
  Blob blob(sizeof name);
  std::memcpy(blob.data(), &name, sizeof name);
  const auto deliberation = std::make_shared<Deliberation>(impl_, seconds);
  const Result<Survivors> survivors = deliberation->run(std::move(blob));
  if (!survivors) return tl::unexpected(survivors.error());
  std::vector<SegmentName> names;
  for (const Blob& each : survivors->blobs) {
    SegmentName other;
    if (each.size() != sizeof other) return fail(ErrorCode::internal, "shrink: a survivor brought something else");
    std::memcpy(&other, each.data(), sizeof other);
    names.push_back(other);
  }
  Identity identity = identity_of(*impl_, survivors->members, names, 0x736872);
  identity.seats = impl_->identity().seats.after_loss(survivors->members);
  auto impl = CommunicatorImpl::create(impl_->job(), std::move(identity), std::move(*segment), impl_->options());
  if (!impl) return tl::unexpected(impl.error());
  return Communicator(std::move(*impl));
}

}  // namespace tutti
