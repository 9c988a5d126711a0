// What the ranks of a communicator say of the operations they run: asks peers, answers those that ask, and puts into
// words what both sides said. Nothing here blocks; whoever needs an answer looks again later.
//
// answer() and hear() are for any thread, history_of() and publish() for the owner of the communicator's token, and so
// is the rest, because it may attach to a peer's segment.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "communicator/job/message.hpp"
#include "communicator/operation/identity.hpp"
#include "communicator/operation/point_to_point_history.hpp"
#include "engine/call.hpp"
#include "transport/shm/host.hpp"

namespace tutti {

class Job;

class PeerQuery {
 public:
  /// All must outlive it.
  PeerQuery(Job& job, const Identity& identity, Host& host) : job_(job), identity_(identity), host_(host) {}

  /// Makes known that this rank has entered a collective.
  void publish(const Call& call, OperationTag tag);
  /// Returns where this rank's sends to a peer, or receives from it, are to be added.
  PointToPointHistory& history_of(int peer, bool sends);

  /// Asks a rank of another host what it runs.
  void ask(int peer);
  /// Asks all of them, once a second at most.
  void ask_all();
  /// Asks for the other end of a send to a peer (`sends`), or of a receive from it.
  void ask_other_end(int peer, bool sends, std::uint32_t number);

  /// Answers a question, and keeps an answer.
  void hear(const Message& message);

  /// Returns whether it is known what a peer runs.
  bool is_known(int peer) { return !describe(peer).empty(); }
  /// Returns the signature of the call with which a peer has entered a collective; none if that is not known.
  std::optional<std::uint32_t> signature_of(int peer, std::uint32_t number);
  /// Returns a rank that is known not to have entered a collective; -1 if there is none.
  int find_late_rank(std::uint32_t number);
  /// Returns "8 x float32", or an empty text if the peer has forgotten; none if the answer is not here.
  std::optional<std::string> other_end(int peer, bool sends, std::uint32_t number) const;

  /// Returns ", which last entered broadcast(...) #4", for warnings; empty if nothing is known.
  std::string describe(int peer);
  /// Returns "; lanes from rank 0 to rank 3: ..." if a rank of another host is not reached by all lanes.
  std::string describe_lanes(int peer) const;
  /// Returns a sentence about two ranks whose calls differ, maybe since an earlier one that needed nothing of the
  /// other.
  std::string describe_mismatch(const Call& call, std::uint32_t number, int peer);
  std::string describe_mismatch_of_ends(const Call& call, std::uint32_t number, int peer) const;
  /// Returns "#1 is broadcast(...) on rank 0 and ... on rank 1" of the first collective that is not the same call on
  /// this rank and another of the host; empty if there is none. Small broadcasts and scatters whose roots differ need
  /// nothing of each other, and end well on all ranks with wrong data.
  std::string find_difference() const;

 private:
  void send(int peer, const Message& message);
  std::string describe_difference(int peer) const;
  std::string recall(int peer, bool sends, std::uint32_t number) const;

  Job& job_;
  const Identity& identity_;
  Host& host_;
  std::uint64_t asked_all_ = 0;  // ticks
  mutable std::mutex mutex_;     // what follows
  std::map<int, Message> answers_;
  std::map<int, Message> end_answers_;
  std::map<std::pair<int, bool>, std::unique_ptr<PointToPointHistory>> histories_;  // by peer, and whether it sends
};

/// Returns "all_reduce(8 x float32, sum)".
std::string describe_call(const Call& call);

}  // namespace tutti
