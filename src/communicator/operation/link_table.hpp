// The links of a communicator's rank: through shared memory to ranks of its host, over TCP to others. Opened on first
// use and kept. Owner's thread only.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "communicator/operation/identity.hpp"
#include "engine/plan.hpp"
#include "monitor/recorder.hpp"
#include "transport/frame.hpp"
#include "transport/link.hpp"
#include "transport/shm/host.hpp"

namespace tutti {

class Job;

class LinkTable final : public Links {
 public:
  /// `record`: where links are counted; may be null. All must outlive the table.
  LinkTable(const Job& job, const Identity& identity, Host& host, monitor::CommunicatorRecord* record)
      : job_(job), identity_(identity), host_(host), record_(record) {}

  /// Links that programs use. Fails if there is no such channel, or the rank is gone.
  Result<SendLink*> send_link(int rank, int channel) override;
  Result<RecvLink*> recv_link(int rank, int channel) override;
  std::size_t window() const override;

  /// Links that are kept for sends and receives.
  Result<SendLink*> point_to_point_send(int rank);
  Result<RecvLink*> point_to_point_recv(int rank);

  bool is_here(int rank) const { return host_.is_here(rank); }
  /// Makes the memory of a rank of this host reachable.
  Status attach(int rank);

  /// Closes all links, so that nothing refers to users' memory any more. No plan may use them after.
  void close();

 private:
  Status check_channel(int rank, int channel) const;
  LinkId id_of(int source, int target, int channel) const;
  template <typename Link>
  Link* watch(Link* link, int rank, int channel, bool receives);
  Result<SendLink*> open_send(int rank, int channel);
  Result<RecvLink*> open_recv(int rank, int channel);

  const Job& job_;
  const Identity& identity_;
  Host& host_;
  monitor::CommunicatorRecord* record_;
  std::map<std::pair<int, int>, std::unique_ptr<SendLink>> send_links_;  // by rank and channel
  std::map<std::pair<int, int>, std::unique_ptr<RecvLink>> recv_links_;
};

}  // namespace tutti
