#include "communicator/operation/link_table.hpp"

#include <fmt/core.h>

#include "communicator/job/job.hpp"
#include "program/check/check.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

// Sends and receives have a channel of their own, beyond those that programs may use.
constexpr int kProgramChannels = CheckOptions{}.max_channels;
constexpr int kPointToPointChannel = kProgramChannels;
constexpr std::size_t kDirectFrom = 16 << 10;  // sends of this size are read where they lie, if that can be mapped

int pipe_of(int channel) { return channel == kPointToPointChannel ? kShmPipes - 1 : channel; }

}  // namespace

/// TCP's links take more than those of shared memory.
std::size_t LinkTable::window() const { return static_cast<std::size_t>(slots_for(host_.size())) * kSlotBytes; }

Status LinkTable::attach(int rank) {
  Status attached = host_.attach(rank);
  if (!attached) attached.error().peer = rank;
  return attached;
}

Status LinkTable::check_channel(int rank, int channel) const {
  const int channels = is_here(rank) ? kShmChannels : kProgramChannels;
  if (channel < channels) return {};
  return fail(ErrorCode::unsupported, fmt::format("channel {}: programs have {} channels {}", channel, channels,
                                                  is_here(rank) ? "in shared memory" : "over TCP"));
}

Result<SendLink*> LinkTable::send_link(int rank, int channel) {
  if (Status within = check_channel(rank, channel); !within) return tl::unexpected(within.error());
  return open_send(rank, channel);
}

Result<RecvLink*> LinkTable::recv_link(int rank, int channel) {
  if (Status within = check_channel(rank, channel); !within) return tl::unexpected(within.error());
  return open_recv(rank, channel);
}

Result<SendLink*> LinkTable::point_to_point_send(int rank) { return open_send(rank, kPointToPointChannel); }

Result<RecvLink*> LinkTable::point_to_point_recv(int rank) { return open_recv(rank, kPointToPointChannel); }

LinkId LinkTable::id_of(int source, int target, int channel) const {
  LinkId id;
  id.communicator = identity_.id;
  id.source = static_cast<std::uint32_t>(source);
  id.target = static_cast<std::uint32_t>(target);
  id.channel = static_cast<std::uint32_t>(channel);
  return id;
}

Result<SendLink*> LinkTable::open_send(int rank, int channel) {
  auto& link = send_links_[{rank, channel}];
  if (link != nullptr) return link.get();
  if (is_here(rank)) {
    if (Status attached = attach(rank); !attached) return tl::unexpected(attached.error());
    DirectFrom direct{.mapped = kDirectFrom};
    if (host_.memory_of(rank).same_process()) direct.ordinary = kDirectFrom;
    link = host_.open_send(rank, pipe_of(channel), direct);
  } else {
    link = job_.tcp()->open_send(job_.endpoint_of(identity_.process_of(rank)), id_of(identity_.rank, rank, channel));
  }
  return watch(link.get(), rank, channel, false);
}

Result<RecvLink*> LinkTable::open_recv(int rank, int channel) {
  auto& link = recv_links_[{rank, channel}];
  if (link != nullptr) return link.get();
  if (is_here(rank)) {
    if (Status attached = attach(rank); !attached) return tl::unexpected(attached.error());
    link = host_.open_recv(rank, pipe_of(channel));
  } else {
    link = job_.tcp()->open_recv(job_.endpoint_of(identity_.process_of(rank)), id_of(rank, identity_.rank, channel));
  }
  return watch(link.get(), rank, channel, true);
}

template <typename Link>
Link* LinkTable::watch(Link* link, int rank, int channel, bool receives) {
  if (record_ == nullptr) return link;
  auto* const record = monitor::Recorder::of_process().open_link(*record_, rank, channel, receives);
  if (record != nullptr) link->observe(*record);
  return link;
}

void LinkTable::close() {
  send_links_.clear();
  recv_links_.clear();
}

}  // namespace tutti
