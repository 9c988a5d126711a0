// A rank joins its job: every rank brings one blob and leaves with the blobs of all, in rank order. Newcomers to ranks
// that wait for some have no number yet, and leave with one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/settings.hpp"
#include "bootstrap/store.hpp"
#include "bootstrap/wire.hpp"
#include "net/socket.hpp"
#include "net/sockets.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct JoinInfo {
  /// Where the store may be, tried in turn, again and again until the deadline. Where ports differ, the store is on
  /// the first that was free, and others' services found on the way are passed by.
  std::vector<HostPort> endpoints;
  std::string secret;
  /// Tells joins apart: ranks whose `job` differs do not meet, even with the same secret.
  std::string job;
  int rank = 0;  // kNewcomer: to be given a number; `size` is of no account then
  int size = 1;
  int newcomers = 0;        // how many of `size`, the last, come without a number
  int at_least = 0;         // and how many of them suffice at the deadline
  Blob blob;                // at most kMaxBlobBytes
  AgreedSettings settings;  // compared: all ranks must bring the same
  Deadline deadline = Deadline::in(tutti::settings().join_timeout);

  /// A newcomer's blob, made once it is known how many ranks there will be at most.
  std::function<Result<Blob>(int size)> introduce;

  /// Called with the blobs of all. The blob it returns is exchanged in another round, on the same connection: all ranks
  /// must return one, or none of them. Not for meetings with newcomers.
  std::function<Result<std::optional<Blob>>(const std::vector<Blob>& blobs)> again;

  /// Asked now and then while others are waited for: an error ends the wait.
  std::function<Status()> interrupted;

  /// Called for each rank that has joined, if this process serves the store: on its thread, and not after join() has
  /// returned.
  std::function<void(int rank)> on_joined;

  /// Rank 0 serves the store itself, at the first endpoint it can listen on.
  bool rank_zero_hosts = true;
  /// A store in this process, if there is one: join returns once it has answered everybody, so that the process may
  /// end right after.
  std::shared_ptr<Store> local_store;

  Sockets* sockets = &kernel_sockets();
};

/// Errors, all with `rank` set, but a newcomer's:
///   timed_out   ranks are missing (named), or the store cannot be reached
///   refused     wrong secret or version, rank taken, ranks disagree on size or settings
///   rank_died   a rank, or the store, went away before all had joined
Result<std::vector<Blob>> join(const JoinInfo& info);
/// The same with newcomers, or as one: fewer blobs than `size` where fewer newcomers came, and this rank's number.
Result<Gathered> attend(const JoinInfo& info);

}  // namespace tutti
