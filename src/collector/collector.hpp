// The collector: agents of all hosts tell it what they see, it judges jobs as a whole, and passes verdicts on: as lines
// of JSON to a file, into a database, to a web server. Whoever asks gets all that it knows. Jobs do not know that it is
// there: if it goes away, agents come back to it, and verdicts resume a look later.
//
// One thread (and one for the web server). Whoever connects proves the token before anything is read as protocol
// (net/connector.hpp), and is bounded in what it may send and leave unread; who breaks that is dropped, and delays
// nobody. It judges once a second, four times while there is an incident: something stands still. Agents of such a job
// look as often, for five minutes after the last verdict changed. Of a job that moves they do not, whatever is wrong
// with it: four times the telemetry of all hosts is no help to a collector that is late already, and would keep it so.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agent/files.hpp"
#include "agent/report/frame_stream.hpp"
#include "collector/known_hosts.hpp"
#include "collector/verdict_store.hpp"
#include "collector/webhook.hpp"
#include "diagnosis/job_watch.hpp"
#include "net/connector.hpp"
#include "net/event_loop.hpp"

namespace tutti::collector {

struct CollectorOptions {
  SocketAddress listen;
  JobKey key;          // agent::key_of_token()
  std::string store;   // a database; empty: none
  std::string events;  // a file of verdicts as lines; "-": standard output; empty: none
  std::optional<WebhookTarget> webhook;
};

class Collector final : private Connector::Owner {
 public:
  static constexpr std::size_t kMostAgents = 4096, kMostAskers = 16;
  /// With those that are gone, and not forgotten yet.
  static constexpr std::size_t kMostHosts = 2 * kMostAgents;

  /// Fails where it cannot listen, or the database is not one.
  static Result<std::unique_ptr<Collector>> open(CollectorOptions options);
  ~Collector() override;

  const SocketAddress& address() const { return address_; }
  /// Until `stop` becomes readable.
  Status run(int stop);

 private:
  struct Peer {
    Peer(agent::FrameStream s, agent::Hello h, std::string n)
        : stream(std::move(s)), hello(std::move(h)), name(std::move(n)) {}
    agent::FrameStream stream;
    agent::Hello hello;
    std::string name;
    std::uint64_t watch = 0;
    bool incident = false;  // what it was told last
    double taken_at = 0;    // when it last took all that there was for it, or there was nothing

    bool is_agent() const { return hello.speaker == agent::Hello::Speaker::agent; }
    KnownHosts::Key key() const { return {hello.host, hello.place}; }
  };

  explicit Collector(CollectorOptions options) : options_(std::move(options)) {}
  Status prepare();

  Connector::Answer greeted(Connector::Id id, const Connector::Arrival& arrival) override;
  void accepted(Connector::Id id, Fd socket, const Connector::Arrival& arrival) override;
  void dialed(Connector::Id, Fd, const Blob&) override {}
  void dial_failed(Connector::Id, const Error&, ConnectFailure) override {}
  void left(Connector::Id) override {}
  void dropped() override {}

  void on_events(Connector::Id id);
  void after_writing(Connector::Id id);
  Status take(Peer& peer, const agent::Frame& frame);
  Status take_look(Peer& peer, const std::string& payload);
  void answer(Peer& peer);
  void drop(Connector::Id id, const std::string& why);
  void drop_deaf();
  std::size_t count(agent::Hello::Speaker speaker) const;

  void judge();
  void hear_late();
  void note_incidents();
  void tell_pace(Peer& peer, std::int64_t sent, std::int64_t heard);
  bool is_in_incident(const Peer& peer) const;
  void pass_on(const diagnosis::JudgedJob& job, const diagnosis::VerdictChange& change);
  double next_turn();

  CollectorOptions options_;
  SocketAddress address_;
  EventLoop loop_{1.0};
  std::unique_ptr<Connector> connector_;
  std::map<Connector::Id, std::unique_ptr<Peer>> peers_;
  KnownHosts hosts_;
  diagnosis::JobWatch watch_;
  std::set<std::uint64_t> incidents_;        // jobs
  std::map<std::uint64_t, double> alerted_;  // when their incident began, or a verdict last changed
  double next_judgement_ = 0;
  std::optional<agent::EventFile> events_;
  std::unique_ptr<VerdictStore> store_;
  std::unique_ptr<Webhook> webhook_;
  RateLimitedLog log_{1};
};

}  // namespace tutti::collector
