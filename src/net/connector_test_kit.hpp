// A process with a connector, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "net/connector.hpp"
#include "net/local_listener.hpp"

namespace tutti {

inline constexpr std::string_view kSecret = "the secret of this job";

inline Blob bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string text_of(const Blob& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Answers as it is told, and notes what it hears.
class Process final : public Connector::Owner {
 public:
  using Judge = std::function<Connector::Answer(Connector::Id, const Connector::Arrival&)>;

  explicit Process(EventLoop& loop, std::string_view secret = kSecret, double patience = 5,
                   Sockets& own_sockets = kernel_sockets())
      : sockets_of_host(own_sockets),
        connector(loop, {Purpose::control, JobKey(secret, "", false), patience, 64, &own_sockets}, *this) {}

  SocketAddress listen(const SocketAddress& address = SocketAddress::loopback()) {
    auto opened = sockets_of_host.listen(address);
    EXPECT_TRUE(connector.listen(std::move(opened->socket)));
    return opened->address;
  }
  std::string listen_locally() {
    auto opened = sockets_of_host.listen_locally(ProcessId::random());
    EXPECT_TRUE(opened);
    local = std::move(*opened);
    EXPECT_TRUE(connector.listen(local.take_listener()));
    return local.path();
  }

  void put_off_answers() {
    judge = [this](Connector::Id id, const Connector::Arrival&) {
      waiting.push_back(id);
      return Connector::Answer::later();
    };
  }

  Connector::Answer greeted(Connector::Id id, const Connector::Arrival& arrival) override {
    greetings.push_back(text_of(arrival.greeting));
    return judge(id, arrival);
  }
  void accepted(Connector::Id, Fd socket, const Connector::Arrival&) override { sockets.push_back(std::move(socket)); }
  void dialed(Connector::Id id, Fd socket, const Blob& reply) override {
    replies[id] = text_of(reply);
    sockets.push_back(std::move(socket));
  }
  void dial_failed(Connector::Id id, const Error& why, ConnectFailure kind) override {
    failures[id] = kind;
    errors[id] = why.message;
  }
  void left(Connector::Id) override { ++gone; }
  void dropped() override { ++drops; }

  Judge judge = [](Connector::Id, const Connector::Arrival&) { return Connector::Answer::accept(bytes_of("welcome")); };
  std::vector<std::string> greetings;
  std::vector<Connector::Id> waiting;  // for an answer
  std::map<Connector::Id, std::string> replies;
  std::map<Connector::Id, ConnectFailure> failures;
  std::map<Connector::Id, std::string> errors;
  std::vector<Fd> sockets;
  int gone = 0;
  int drops = 0;
  LocalListener local;
  Sockets& sockets_of_host;
  Connector connector;
};

}  // namespace tutti
