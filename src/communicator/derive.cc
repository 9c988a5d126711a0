// Communicators made from one there is: split, duplicate, shrink.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/hash.hpp"
#include "communicator/calls.hpp"
#include "communicator/create.hpp"
#include "communicator/impl.hpp"
#include "communicator/shrink_agreement.hpp"

namespace tutti {
namespace {

/// Gathers one plain value of every rank.
template <typename Value>
Result<std::vector<Value>> gather_values(CommunicatorImpl& impl, const Value& mine) {
  std::vector<Value> all(static_cast<std::size_t>(impl.size()));
  const Result<Call> call =
      make_call({impl.rank(), impl.size()}, Collective::all_gather, &mine, all.data(), sizeof(Value), DataType::uint8);
  if (!call) return tl::unexpected(call.error());
  if (Status done = impl.driver().run(*call); !done) return tl::unexpected(done.error());
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

struct SplitRequest {
  std::int32_t color;
  std::int32_t key;
};

/// The identity of a communicator of some of the parent's ranks, once their new segments are known.
Identity identity_of(const CommunicatorImpl& parent, const std::vector<int>& ranks,
                     const std::vector<SegmentName>& segments, std::uint64_t seed) {
  Identity identity;
  identity.slots.total = static_cast<int>(ranks.size());
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

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key) {
  const Result<std::vector<SplitRequest>> requests = gather_values(*impl_, SplitRequest{color, key});
  if (!requests) return tl::unexpected(requests.error());
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if ((*requests)[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return (*requests)[static_cast<std::size_t>(a)].key < (*requests)[static_cast<std::size_t>(b)].key;
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
  ShrinkOptions options;
  options.seconds = seconds;
  return shrink(options);
}

Result<Communicator> Communicator::shrink(const ShrinkOptions& options) {
  for (const int dead : options.dead)
    if (dead < 0 || dead >= size() || dead == rank())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("shrink: dead rank {} is not one of the other {} ranks", dead, size() - 1));
  // Nothing of this communicator may move any more, here or on the others.
  Error error;
  error.code = ErrorCode::aborted;
  error.message = fmt::format("rank {} shrinks the communicator", rank());
  impl_->failure().break_with(std::move(error), Notify::peers);
  Result<Segment> segment = Segment::create(size());
  if (!segment) return tl::unexpected(segment.error());
  const SegmentName& name = segment->name();
  Blob blob(sizeof name);
  std::memcpy(blob.data(), &name, sizeof name);
  const auto agreement = std::make_shared<ShrinkAgreement>(*impl_, options);
  Result<Survivors> survivors = agreement->run(*impl_, std::move(blob));
  if (!survivors) {
    survivors.error().rank = rank();
    survivors.error().operation = "shrink";
    return tl::unexpected(survivors.error());
  }
  std::vector<SegmentName> names;
  for (const Blob& each : survivors->blobs) {
    SegmentName other;
    if (each.size() != sizeof other) return fail(ErrorCode::internal, "shrink: a survivor brought something else");
    std::memcpy(&other, each.data(), sizeof other);
    names.push_back(other);
  }
  Identity identity = identity_of(*impl_, survivors->members, names, 0x736872);
  identity.slots = impl_->identity().slots.after_loss(survivors->members);
  auto impl = CommunicatorImpl::create(impl_->job(), identity, std::move(*segment), impl_->options());
  if (!impl) {
    report_failure(*impl_->job(), identity, impl.error());
    return tl::unexpected(impl.error());
  }
  return Communicator(std::move(*impl));
}

}  // namespace tutti
