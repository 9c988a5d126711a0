#include "communicator/remote_links.hpp"

#include <vector>

#include "communicator/impl.hpp"
#include "communicator/job.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

class TcpRemote final : public Remote {
 public:
  TcpRemote(const Job& job, const Identity& identity) : job_(job), identity_(identity) {}

  std::unique_ptr<SendLink> open_send(int rank, int channel) override {
    return job_.tcp()->open_send(endpoint_of(rank), link(identity_.rank, rank, channel));
  }

  std::unique_ptr<RecvLink> open_recv(int rank, int channel) override {
    return job_.tcp()->open_recv(endpoint_of(rank), link(rank, identity_.rank, channel));
  }

 private:
  const Endpoint& endpoint_of(int rank) const {
    return job_.endpoint_of(identity_.members[static_cast<std::size_t>(rank)].process);
  }

  LinkId link(int source, int target, int channel) const {
    LinkId id;
    id.communicator = identity_.id;
    id.source = static_cast<std::uint32_t>(source);
    id.target = static_cast<std::uint32_t>(target);
    id.channel = static_cast<std::uint32_t>(channel);
    return id;
  }

  const Job& job_;
  const Identity& identity_;
};

}  // namespace

std::unique_ptr<Remote> open_remote(const Job& job, const Identity& identity) {
  if (job.tcp() == nullptr) return nullptr;
  return std::make_unique<TcpRemote>(job, identity);
}

}  // namespace tutti
