// A process of a world that speaks for itself, frame by frame, for tests of the rules.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "control/control_peer.hpp"
#include "control/control_test_kit.hpp"
#include "control/frame.hpp"
#include "control/greeting.hpp"
#include "net/handshake.hpp"
#include "net/socket.hpp"

namespace tutti::testing_support {

class Impostor {
 public:
  explicit Impostor(ProcessId id) : id_(id) {}

  void connect(const ControlPeer& to) {
    auto socket = connect_once(to.addresses[0], Deadline::in(5));
    ASSERT_TRUE(socket);
    greet(std::move(*socket), to.id);
  }
  void greet(Fd socket, const ProcessId& to) {
    ASSERT_TRUE(authenticate(socket.get(), Side::connector, Purpose::control, JobKey("secret"), Deadline::in(5)));
    socket_ = std::move(socket);
    WireWriter greeting;
    greeting.put_bytes(Greeting{id_, to}.encode());
    send(greeting.take());
  }
  void send(const std::vector<std::byte>& frame) { ASSERT_TRUE(send_all(socket_.get(), frame, Deadline::in(5))); }
  void say(std::uint64_t number, const std::string& text) {
    WireWriter out;
    out.put(kTopic);
    out.put_raw(bytes_of(text));
    auto frame = encode_frame(ControlFrame::message, out.take());
    set_number(frame, number);
    send(frame);
  }
  void acknowledge(std::uint64_t number) {
    WireWriter out;
    out.put(number);
    send(encode_frame(ControlFrame::heartbeat, out.take()));
  }
  bool is_hung_up_on() {
    std::byte byte;
    while (true)
      if (auto got = recv_all(socket_.get(), std::span(&byte, 1), Deadline::in(5)); !got)
        return got.error().code != ErrorCode::timed_out;
  }

 private:
  ProcessId id_;
  Fd socket_;
};

}  // namespace tutti::testing_support
