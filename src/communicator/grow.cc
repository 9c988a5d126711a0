// How a communicator takes in newcomers: all bootstrap a fresh job together. Rank 0 tells the others, by a broadcast,
// where to meet. They meet as for create(), but that newcomers are given their numbers there, and all work out the
// slots by what rank 0 brought. The old communicator is touched by that broadcast only, so it goes on whatever comes of
// this.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/settings.hpp"
#include "base/wire.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/unique_id.hpp"
#include "communicator/calls.hpp"
#include "communicator/create.hpp"

namespace tutti {
namespace {

constexpr double kDeathSeconds = 1;   // within which a death is known to all
constexpr double kEntrySeconds = 10;  // to connect once all have met: they have just been seen alive

/// What rank 0 tells the other ranks, in one broadcast.
struct Growth {
  bool failed = false;  // rank 0 could not open the meeting
  bool by_id = false;   // otherwise where the launcher says
  ErrorCode code = ErrorCode::internal;
  std::int32_t newcomers = 0;
  std::int32_t at_least = 0;
  double seconds = 0;
  SealedId id{};
};

/// What rank 0 brings to the meeting besides its descriptor.
struct Invitation {
  RankSlots slots;
  bool reproducible = false;
  std::string select;

  Blob encode() const {
    WireWriter out;
    out.put(static_cast<std::int32_t>(slots.total));
    out.put(static_cast<std::uint32_t>(slots.free.size()));
    for (const int slot : slots.free) out.put(static_cast<std::int32_t>(slot));
    out.put(reproducible);
    out.put_text(select);
    return out.take();
  }

  static std::optional<Invitation> decode(const Blob& blob) {
    Invitation invitation;
    WireReader in(blob);
    invitation.slots.total = in.get<std::int32_t>();
    const auto free = in.get<std::uint32_t>();
    for (std::uint32_t i = 0; i < free && in.ok(); ++i) invitation.slots.free.push_back(in.get<std::int32_t>());
    invitation.reproducible = in.get<bool>();
    invitation.select = in.get_text();
    if (!in.complete()) return std::nullopt;
    return invitation;
  }
};

Blob encode_wish(int rank) {
  WireWriter out;
  out.put(static_cast<std::int32_t>(rank));
  return out.take();
}

/// What a process brings: its descriptor, and rank 0's invitation, or a newcomer's wish.
struct Brought {
  Blob descriptor;
  Blob besides;

  Blob encode() const {
    WireWriter out;
    out.put_bytes(descriptor);
    out.put_bytes(besides);
    return out.take();
  }
  static Brought decode(const Blob& blob) {
    WireReader in(blob);
    Brought brought;
    brought.descriptor = in.get_bytes();
    brought.besides = in.get_bytes();
    return brought;
  }
};

/// Whether the launcher says where to meet.
Status find_launcher(int newcomers) {
  const Result<LaunchInfo> launch = from_environment();
  if (!launch) return tl::unexpected(launch.error());
  const Result<JoinInfo> info = growth_place(*launch, 0, 1 + newcomers);
  if (!info) return tl::unexpected(info.error());
  return {};
}

/// The meeting point that rank 0 opened: closed at the end, however that comes.
class OwnMeeting {
 public:
  OwnMeeting() = default;
  ~OwnMeeting() {
    if (id_) close_meeting(*id_);
  }
  OwnMeeting(const OwnMeeting&) = delete;
  OwnMeeting& operator=(const OwnMeeting&) = delete;

  /// None where the launcher says where to meet.
  const std::optional<UniqueId>& id() const { return id_; }

  Status open(const GrowOptions& options) {
    if (options.newcomers < 1 || options.at_least < 0 || options.at_least > options.newcomers)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("grow: {} newcomers, at least {}, cannot be", options.newcomers, options.at_least));
    if (!options.id && !options.invite) return find_launcher(options.newcomers);
    Result<UniqueId> made = options.id ? Result<UniqueId>(*options.id) : UniqueId::create();
    if (!made) return tl::unexpected(made.error());
    id_ = *made;
    return {};
  }

 private:
  std::optional<UniqueId> id_;
};

Growth growth_of(const CommunicatorImpl& impl, const GrowOptions& options, const std::optional<UniqueId>& id) {
  Growth growth;
  growth.newcomers = options.newcomers;
  growth.at_least = options.at_least > 0 ? options.at_least : options.newcomers;
  growth.seconds = options.seconds > 0 ? options.seconds : join_deadline(impl.options()).seconds_left();
  growth.by_id = id.has_value();
  if (id) growth.id = seal(*id, impl.job()->secret());
  return growth;
}

Blob invitation_of(const CommunicatorImpl& impl, bool fill) {
  Invitation invitation;
  invitation.slots = fill ? impl.identity().slots : RankSlots{impl.size(), {}};
  invitation.reproducible = impl.options().reproducible;
  invitation.select = impl.options().select;
  return invitation.encode();
}

Status share(CommunicatorImpl& impl, Growth& growth) {
  Result<Call> call =
      make_call({impl.rank(), impl.size()}, Collective::broadcast, &growth, &growth, sizeof growth, DataType::uint8);
  if (!call) return tl::unexpected(call.error());
  return impl.driver().run(*call);
}

/// Ends the wait for newcomers: a rank was lost, or abort() was called.
Status still_whole(const CommunicatorImpl& impl) {
  if (Status status = impl.failure().status(); !status) return status;
  const std::vector<Loss> gone = impl.failure().losses();
  if (gone.empty()) return {};
  auto failure = fail(ErrorCode::rank_died, fmt::format("rank {} has left", gone.front().member));
  failure.value().peer = gone.front().member;
  return failure;
}

Result<JoinInfo> meeting_of(const std::shared_ptr<CommunicatorImpl>& impl, const Growth& growth) {
  const int size = impl->size() + growth.newcomers;
  Result<JoinInfo> info = fail(ErrorCode::internal, "no meeting");
  if (growth.by_id) {
    const Result<UniqueId> id = unseal(growth.id, impl->job()->secret());
    if (!id) return tl::unexpected(id.error());
    info = join_info(*id, impl->rank(), size);
  } else {
    const Result<LaunchInfo> launch = from_environment();
    if (!launch) return tl::unexpected(launch.error());
    info = growth_place(*launch, impl->rank(), size);
  }
  if (!info) return info;
  info->newcomers = growth.newcomers;
  info->at_least = growth.at_least;
  info->interrupted = [impl] { return still_whole(*impl); };
  return info;
}

/// Where a rank leaves the meeting, that is mostly because another was lost: the old communicator will say which.
Error blame(const CommunicatorImpl& impl, const Error& error) {
  const Deadline known = Deadline::in(error.code == ErrorCode::rank_died ? kDeathSeconds : 0);
  while (true) {
    if (const Status whole = still_whole(impl); !whole) return whole.error();
    if (known.passed()) return error;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// All have met: everyone works out the same slots.
Result<std::shared_ptr<CommunicatorImpl>> enter(JoiningProcess& joining, const Gathered& gathered, Options options) {
  const auto wrong = [] { return fail(ErrorCode::refused, "rank 0's invitation contradicts itself"); };
  std::vector<Brought> all;
  for (const Blob& blob : gathered.blobs) all.push_back(Brought::decode(blob));
  const std::optional<Invitation> invitation = Invitation::decode(all.front().besides);
  if (!invitation) return wrong();
  const int present = invitation->slots.taken();
  if (present < 1 || present >= static_cast<int>(all.size())) return wrong();
  std::vector<int> wishes;
  for (auto newcomer = all.begin() + present; newcomer != all.end(); ++newcomer)
    wishes.push_back(WireReader(newcomer->besides).get<std::int32_t>());
  RankSlots slots = invitation->slots;
  std::vector<int> taken = slots.all_taken();
  for (const int slot : slots.take(wishes)) taken.push_back(slot);
  std::vector<Blob> descriptors(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    descriptors[static_cast<std::size_t>(slots.rank_at(taken[i]))] = std::move(all[i].descriptor);
  options.reproducible = invitation->reproducible;
  options.select = invitation->select;
  const int rank = slots.rank_at(taken[static_cast<std::size_t>(gathered.rank)]);
  return joining.enter(descriptors, rank, Deadline::in(kEntrySeconds), options, std::move(slots));
}

Result<std::shared_ptr<CommunicatorImpl>> join_as_newcomer(JoinInfo info, int rank, const Options& options) {
  info.interrupted = interruption_by(options.cancel);
  info.deadline = join_deadline(options);
  JoiningProcess joining(info);
  info.introduce = [&](int size) -> Result<Blob> {
    Result<Blob> descriptor = joining.describe(size);
    if (!descriptor) return descriptor;
    return Brought{std::move(*descriptor), encode_wish(rank)}.encode();
  };
  const Result<Gathered> gathered = attend(info);
  if (!gathered) return tl::unexpected(gathered.error());
  return enter(joining, *gathered, options);
}

}  // namespace

Result<Communicator> Communicator::grow(const GrowOptions& options) {
  OwnMeeting meeting;
  Growth growth;
  Status opened;
  if (rank() == 0) {
    opened = meeting.open(options);
    growth.failed = !opened;
    if (opened)
      growth = growth_of(*impl_, options, meeting.id());
    else
      growth.code = opened.error().code;
  }
  if (Status told = share(*impl_, growth); !told) return tl::unexpected(told.error());
  if (!opened) return tl::unexpected(opened.error());
  if (growth.failed) return fail(growth.code, "rank 0 could not open the meeting for newcomers; it says why");
  Result<JoinInfo> info = meeting_of(impl_, growth);
  if (!info) return tl::unexpected(info.error());
  if (meeting.id() && options.invite) options.invite(*meeting.id());
  JoiningProcess joining(*info);
  Result<Blob> descriptor = joining.describe(info->size);
  if (!descriptor) return tl::unexpected(descriptor.error());
  info->blob = Brought{std::move(*descriptor), rank() == 0 ? invitation_of(*impl_, options.fill) : Blob()}.encode();
  info->deadline = Deadline::in(growth.seconds);
  const Result<Gathered> gathered = attend(*info);
  if (!gathered) return tl::unexpected(blame(*impl_, gathered.error()));
  auto impl = enter(joining, *gathered, impl_->options());
  if (!impl) return tl::unexpected(impl.error());
  return Communicator(std::move(*impl));
}

Result<Communicator> Communicator::join(const UniqueId& id, int rank, const Options& options) {
  report_settings_once();
  Result<JoinInfo> info = join_info(id, kNewcomer, 0);
  if (!info) return tl::unexpected(info.error());
  auto impl = join_as_newcomer(std::move(*info), rank, options);
  if (!impl) return tl::unexpected(impl.error());
  return Communicator(std::move(*impl));
}

Result<Communicator> Communicator::join_from_environment(const Options& options) {
  report_settings_once();
  const Result<LaunchInfo> launch = from_environment();
  if (!launch) return tl::unexpected(launch.error());
  Result<JoinInfo> info = growth_place(*launch, kNewcomer, 0);
  if (!info) return tl::unexpected(info.error());
  auto impl = join_as_newcomer(std::move(*info), launch->rank, options);
  if (!impl) return tl::unexpected(impl.error());
  return Communicator(std::move(*impl));
}

}  // namespace tutti
