// The plans of a communicator: selected by the call, compiled on first use, kept. Owner's thread only.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "algorithm/layout.hpp"
#include "engine/call.hpp"
#include "engine/plan.hpp"
#include "monitor/recorder.hpp"
#include "selection/selection.hpp"
#include "transport/shm/host.hpp"

namespace tutti {

class Tcp;

/// How ranks that share no memory are reached.
class Remote {
 public:
  virtual ~Remote() = default;
  virtual std::unique_ptr<SendLink> open_send(int rank, int channel) = 0;
  virtual std::unique_ptr<RecvLink> open_recv(int rank, int channel) = 0;
};

/// How to run a call.
struct Prepared {
  Way way;
  Way when_mapped;  // to go instead if every rank's buffers can be mapped; may have no plan
  std::uint32_t signature = 0;
};

class Plans final : public Links {
 public:
  struct Setting {
    int rank = 0;
    Layout layout;
    bool pull = false;
    bool reproducible = false;
    std::vector<Rule> rules;                        // none until the ranks have agreed on them
    std::vector<Rule> own_rules;                    // those of them that the user gave
    monitor::CommunicatorRecord* record = nullptr;  // where links are counted; may be null
  };

  Plans(Setting setting, Host* host, std::unique_ptr<Remote> remote);
  ~Plans() override;

  /// The plan for a call.
  Result<Prepared> prepare(const Call& call);

  Result<SendLink*> send_link(int rank, int channel) override;
  Result<RecvLink*> recv_link(int rank, int channel) override;

  void set_pull(bool pull);
  void set_rules(std::vector<Rule> rules);
  /// Runs instead of built-in programs, within its size range.
  void install(Program program);
  /// The same, unless the user's own rules speak of the collective.
  void set_planned(std::vector<Program> programs);

  /// Lets go of links to other hosts, so that nothing refers to users' memory any more.
  void drop_links();

 private:
  struct Key {
    Collective collective;
    DataType type;
    Operator op;
    bool in_place;
    bool sends;
    int root;
    std::size_t count;
    bool operator==(const Key&) const = default;
  };
  struct Cached {
    bool valid = false;
    Key key{};
    Prepared prepared;
  };
  using PlanKey = std::tuple<std::string, Collective, int /*root*/, bool /*in place*/, bool /*sends*/>;

  void forget_choices();
  const Program* program_for(const Call& call, std::size_t bytes) const;
  bool fits(const Program& program, const Call& call, std::size_t bytes) const;
  Result<Prepared> select_and_compile(const Call& call);
  Result<Prepared> prepare_end(const Call& call);
  Result<const Plan*> plan_for(const std::string& algorithm, const Call& call);
  bool can_reach() const { return setting_.pull && setting_.layout.hosts() == 1; }
  Result<std::unique_ptr<Plan>> compile_for(const Program& program, const Call& call);
  Result<const Plan*> keep(std::unique_ptr<Plan>& place, Result<std::unique_ptr<Plan>> compiled);
  class EndLinks;
  Status check_channel(int rank, int channel) const;
  Result<SendLink*> open_send(int rank, int channel);
  Result<RecvLink*> open_recv(int rank, int channel);
  template <typename Link>
  Link* watch(Link* link, int rank, int channel, bool receives);
  Status attach(int rank);
  bool is_here(int rank) const { return host_ != nullptr && host_->is_here(rank); }

  Setting setting_;
  Host* host_;
  std::unique_ptr<Remote> remote_;
  std::vector<std::unique_ptr<Program>> installed_;
  std::vector<Program> planned_;
  std::array<Cached, 64> cache_;
  std::map<PlanKey, std::unique_ptr<Plan>> plans_;
  std::map<std::pair<int, int>, std::unique_ptr<SendLink>> send_links_;
  std::map<std::pair<int, int>, std::unique_ptr<RecvLink>> recv_links_;
};

}  // namespace tutti
