// What the agents of all hosts have told, and how long ago: the state of a collector, without its connections. Each
// agent is bounded: so many jobs, so many bytes of telemetry. A host whose agent is not heard for some seconds is kept,
// and its ranks are out of sight until it comes back; a job is forgotten once a host that answers says that it is over,
// or after an hour without a word.
//
// There are two clocks. `now` does not move while the collector itself stands still, and says how long agents were
// silent; `real` is the monotonic clock, to which moments of hosts are brought. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/report/frames.hpp"
#include "diagnosis/telemetry/telemetry.hpp"
#include "tutti/error.hpp"

namespace tutti::collector {

class KnownHosts {
 public:
  /// A host's name, and what tells its agents apart.
  using Key = std::pair<std::string, std::uint64_t>;

  static constexpr double kSilence = 3;     // seconds after which an agent does not answer
  static constexpr double kJoin = 1;        // seconds without a new host after which a new job is told of,
  static constexpr double kJoinAtMost = 5;  // or after which it is in any case
  static constexpr double kForget = 3600;   // seconds after which what it said is dropped
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;  // of an agent's telemetry

  void connected(const Key& key, double now);
  void disconnected(const Key& key);
  /// From its agent. An error says what is wrong with it; nothing of it was taken then.
  Status take_telemetry(const Key& key, const std::string& line, double now);
  Status take_look(const Key& key, const agent::LookMessage& look, double now, double real);
  void take_alive(const Key& key, double now);

  /// All jobs, as their hosts together know them. One of which only some hosts have told yet is left out: those of the
  /// others would be suspected.
  std::vector<diagnosis::Telemetry> merged(double now);
  /// Whether the last merged() left out a job.
  bool is_joining() const { return is_joining_; }
  /// Ids of the jobs of an agent.
  std::vector<std::uint64_t> jobs_of(const Key& key) const;
  /// A list of agents, for status.
  nlohmann::ordered_json as_json(double now, double real) const;
  std::size_t size() const { return hosts_.size(); }
  /// Whether any word of it came in the last seconds.
  bool answers(const Key& key, double now) const;
  bool knows(const Key& key) const { return hosts_.contains(key); }

 private:
  struct KnownJob {
    diagnosis::Telemetry telemetry;
    std::size_t bytes = 0;
  };
  struct KnownHost {
    bool connected = false;
    double heard = 0;      // when any word came, by `now`
    double looked_at = 0;  // on the host's clock
    double offset = 0;     // to add to that clock; from the first look on
    bool has_looked = false;
    std::map<std::uint64_t, KnownJob> jobs;
  };

  struct JoiningJob {
    std::size_t hosts = 0;
    double first = 0, grew = 0;  // when it was first told of, and when the last host joined
  };

  static bool answers(const KnownHost& host, double now) { return now - host.heard <= kSilence; }
  void forget(double now);
  bool is_joining(std::uint64_t job, std::size_t hosts, double now);

  std::map<Key, KnownHost> hosts_;
  std::map<std::uint64_t, JoiningJob> joining_;  // all jobs, also those that are complete
  bool is_joining_ = false;
  std::set<std::uint64_t> over_;  // jobs that a host has seen end
};

}  // namespace tutti::collector
