#include "net/sockets.hpp"

#include <utility>

namespace tutti {
namespace {

class KernelSockets final : public Sockets {
 public:
  Result<Fd> connect(const SocketAddress& remote, const SocketAddress* source) override {
    return start_connect(remote, source);
  }
  int connect_result(int descriptor) override { return tutti::connect_result(descriptor); }
  Result<Fd> connect_local(const std::string& path) override { return tutti::connect_local(path); }

  Result<Listening> listen(const SocketAddress& address) override {
    auto listener = listen_on(address);
    if (!listener) return tl::unexpected(listener.error());
    const auto bound = local_address(listener->get());
    if (!bound) return tl::unexpected(bound.error());
    return Listening{std::move(*listener), *bound};
  }
  Result<LocalListener> listen_locally(const ProcessId& owner) override { return LocalListener::open(owner); }
  Result<std::optional<Accepted>> accept(int listener) override { return accept_one(listener); }

  Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, Deadline deadline) override {
    return tutti::resolve(host, port, deadline);
  }
  Result<std::vector<Interface>> interfaces() override { return tutti::interfaces(); }
  std::vector<OwnAddress> own_addresses() override { return tutti::own_addresses(); }
};

}  // namespace

Sockets& kernel_sockets() {
  static KernelSockets sockets;
  return sockets;
}

}  // namespace tutti
