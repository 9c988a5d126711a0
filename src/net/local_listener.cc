#include "net/local_listener.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace tutti {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is too long for a socket", path));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Fd new_socket() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

Result<LocalListener> LocalListener::open(const ProcessId& owner) {
  const std::string path = fmt::format("/dev/shm/tutti-listener-{}", owner.to_string());
  const auto address = address_of(path);
  if (!address) return tl::unexpected(address.error());
  LocalListener opened;
  opened.listener_ = new_socket();
  if (!opened.listener_ || ::fchmod(opened.listener_.get(), 0600) != 0 ||
      ::bind(opened.listener_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return system_error(fmt::format("opening {}", path));
  opened.path_fd_ = Fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  ::unlink(path.c_str());
  if (!opened.path_fd_ || ::listen(opened.listener_.get(), 64) != 0)
    return system_error(fmt::format("opening {}", path));
  opened.path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), opened.path_fd_.get());
  return opened;
}

Result<Fd> connect_local(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return tl::unexpected(address.error());
  Fd socket = new_socket();
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return system_error(fmt::format("connecting to {}", path));
  return socket;
}

}  // namespace tutti
