// Answers GET over HTTP/1.1, one answer for each connection. It has no thread: its owner polls descriptor() and calls
// serve(). Clients that say nothing, send or read slowly, or hang cost a descriptor until they are cut off ten seconds
// after they came, or sooner where too many are there; nobody waits for them.
//
// With a token, requests must bear it (Authorization: Bearer ...), all but those for /healthz.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

struct MHD_Connection;
struct MHD_Daemon;

namespace tutti::agent {

struct HttpResponse {
  unsigned status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  // shared by all who are being sent it
};

class Server {
 public:
  using Handler = std::function<HttpResponse(std::string_view path)>;

  static Result<std::unique_ptr<Server>> open(const SocketAddress& address, std::string token, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const SocketAddress& address() const { return address_; }
  int descriptor() const;
  /// Seconds until serve() has something to do, besides what the descriptor tells.
  double wait() const;
  void serve();
  std::uint64_t refused() const { return refused_; }

 private:
  struct Client {
    MHD_Connection* connection;
    int descriptor;
    Deadline deadline;
  };
  struct Callbacks;  // from the library, which is C

  Server(std::string token, Handler handler) : token_(std::move(token)), handler_(std::move(handler)) {}
  HttpResponse answer(std::string_view method, std::string_view path, std::string_view authorization);
  bool is_admitted(std::string_view authorization) const;
  void came(MHD_Connection* connection, int descriptor);
  void left(const MHD_Connection* connection);
  void cut_off_slow();

  std::string token_;
  Handler handler_;
  SocketAddress address_;
  Fd listener_;
  std::list<Client> clients_;  // in the order they came
  std::uint64_t refused_ = 0;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace tutti::agent
