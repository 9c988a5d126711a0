#include "agent/server.hpp"

#include <fmt/core.h>
#include <microhttpd.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>

namespace tutti::agent {
namespace {

constexpr unsigned kClients = 64;
constexpr unsigned kClientsAtEase = 48;  // with more, the oldest goes
constexpr double kClientSeconds = 10;
constexpr std::size_t kClientMemory = 16 * 1024;  // of a request, and the head of its answer

HttpResponse plain(unsigned status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::make_shared<const std::string>(std::move(text))};
}

/// The library frees it once it is sent, or nobody is there to send it to.
MHD_Response* response_of(const HttpResponse& answer) {
  auto* const held = new std::shared_ptr<const std::string>(answer.body);
  MHD_Response* const response = MHD_create_response_from_buffer_with_free_callback_cls(
      (*held)->size(), const_cast<char*>((*held)->data()),  // it only reads them

      [](void* body) { delete static_cast<std::shared_ptr<const std::string>*>(body); }, held);
  if (response == nullptr) {
    delete held;
    return nullptr;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (answer.status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  return response;
}

}  // namespace

struct Server::Callbacks {
  static MHD_Result on_request(void* server, MHD_Connection* connection, const char* url, const char* method,
                               const char*, const char*, std::size_t* upload_size, void** seen) {
    auto& self = *static_cast<Server*>(server);
    // The first call comes with the head alone; what follows it, if anything, is of no interest.
    if (*seen == nullptr || *upload_size != 0) {
      *seen = server;
      *upload_size = 0;
      return MHD_YES;
    }
    const char* const given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const HttpResponse answer = self.answer(method, url, given == nullptr ? "" : given);
    MHD_Response* const response = response_of(answer);
    if (response == nullptr) return MHD_NO;
    const MHD_Result queued = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return queued;
  }

  static void on_connection(void* server, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode code) {
    auto& self = *static_cast<Server*>(server);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) return self.left(connection);
    const MHD_ConnectionInfo* const info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != nullptr) self.came(connection, info->connect_fd);
  }
};

Result<std::unique_ptr<Server>> Server::open(const SocketAddress& address, std::string token, Handler handler) {
  Result<Fd> listener = listen_on(address, PortRange{});
  if (!listener) return tl::unexpected(listener.error());
  std::unique_ptr<Server> server(new Server(std::move(token), std::move(handler)));
  server->listener_ = std::move(*listener);
  const auto bound = local_address(server->listener_.get());
  if (!bound) return tl::unexpected(bound.error());
  server->address_ = *bound;
  server->daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL, 0, nullptr, nullptr, &Callbacks::on_request, server.get(),                                  //
      MHD_OPTION_LISTEN_SOCKET, server->listener_.get(), MHD_OPTION_CONNECTION_LIMIT, kClients,                  //
      MHD_OPTION_CONNECTION_TIMEOUT, static_cast<unsigned>(kClientSeconds), MHD_OPTION_CONNECTION_MEMORY_LIMIT,  //
      kClientMemory, MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::on_connection, server.get(), MHD_OPTION_END);
  if (server->daemon_ == nullptr)
    return fail(ErrorCode::system, fmt::format("cannot serve HTTP on {}", address.to_string()));
  return server;
}

Server::~Server() {
  if (daemon_ == nullptr) return;
  MHD_quiesce_daemon(daemon_);  // else it would close the socket that is ours
  MHD_stop_daemon(daemon_);
}

int Server::descriptor() const { return MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd; }

double Server::wait() const {
  MHD_UNSIGNED_LONG_LONG milliseconds = 0;
  const double library =
      MHD_get_timeout(daemon_, &milliseconds) == MHD_YES ? 1e-3 * static_cast<double>(milliseconds) : kClientSeconds;
  return clients_.empty() ? library : std::min(library, std::max(0.0, clients_.front().deadline.seconds_left()));
}

void Server::serve() {
  cut_off_slow();
  MHD_run(daemon_);
}

void Server::came(MHD_Connection* connection, int descriptor) {
  clients_.push_back({connection, descriptor, Deadline::in(kClientSeconds)});
}

void Server::left(const MHD_Connection* connection) {
  clients_.remove_if([&](const Client& client) { return client.connection == connection; });
}

void Server::cut_off_slow() {
  std::size_t too_many = clients_.size() > kClientsAtEase ? clients_.size() - kClientsAtEase : 0;
  for (Client& client : clients_) {
    if (too_many == 0 && !client.deadline.passed()) break;
    ::shutdown(client.descriptor, SHUT_RDWR);
    client.deadline = Deadline::in(kClientSeconds);  // the library sees the end soon, and removes it
    if (too_many > 0) --too_many;
  }
}

bool Server::is_admitted(std::string_view authorization) const {
  static constexpr std::string_view kScheme = "Bearer ";
  if (token_.empty()) return true;
  if (!authorization.starts_with(kScheme)) return false;
  const std::string_view given = authorization.substr(kScheme.size());
  return given.size() == token_.size() && ::sodium_memcmp(given.data(), token_.data(), token_.size()) == 0;
}

HttpResponse Server::answer(std::string_view method, std::string_view path, std::string_view authorization) {
  if (method != "GET" && method != "HEAD") return plain(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is understood\n");
  if (path == "/healthz") return plain(MHD_HTTP_OK, "ok\n");
  if (!is_admitted(authorization)) {
    ++refused_;
    return plain(MHD_HTTP_UNAUTHORIZED, "a token is wanted: Authorization: Bearer TOKEN\n");
  }
  return handler_(path);
}

}  // namespace tutti::agent
