// The plans of a communicator: chosen by the call, compiled on first use from proven programs, kept. Owner's thread
// only.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "algorithm/layout.hpp"
#include "communicator/operation/link_table.hpp"
#include "engine/call.hpp"
#include "engine/plan.hpp"
#include "program/check/proof.hpp"
#include "selection/plan_folder.hpp"
#include "selection/selection.hpp"

namespace tutti {

/// How to run a call.
struct PreparedCall {
  TiledPlan plan;
  TiledPlan when_mapped;  // to run instead if every rank's buffers can be mapped; may have no plan
  std::uint32_t signature = 0;
};

class PlanCache {
 public:
  struct Setting {
    int rank = 0;
    Layout layout;
    bool reproducible = false;
    std::vector<SelectionRule> own_rules;    // the user's
    std::vector<SelectionRule> tuned_rules;  // after them
    PlanFolder planned;  // run instead of built-in programs, unless the user's rules name the collective
  };

  /// Until settle(), programs are chosen by default.
  PlanCache(Setting setting, LinkTable& links);

  /// A digest of the rules and programs, which must be the same on all ranks.
  std::uint64_t digest() const;
  std::size_t planned_programs() const { return setting_.planned.programs.size(); }
  /// The ranks have agreed on rules and programs, and on whether each can read the others' memory.
  void settle(bool pull);

  /// Returns the plan for a call.
  Result<PreparedCall> prepare(const Call& call);

  /// Replaces all rules.
  void set_rules(std::vector<SelectionRule> rules);
  /// Runs a program instead of built-in ones, within its size range.
  void install(ProvenProgram program);

  /// Forgets all plans, and the links they use.
  void clear();

 private:
  struct Cached {
    bool valid = false;
    CallKey key{};
    PreparedCall prepared;
  };
  using PlanKey = std::tuple<std::string, Collective, int /*root*/, bool /*in place*/, bool /*sends*/>;

  void forget_choices();
  const ProvenProgram* program_for(const Call& call, std::size_t bytes) const;
  bool fits(const Program& program, const Call& call, std::size_t bytes) const;
  Result<PreparedCall> choose_and_compile(const Call& call);
  Result<PreparedCall> prepare_point_to_point(const Call& call);
  /// A built-in program, proven unless it was before.
  Result<ProvenProgram> proven_program(const std::string& algorithm, Collective collective, const Layout& layout,
                                       int root, int rank) const;
  Result<const Plan*> plan_for(const std::string& algorithm, const Call& call);
  bool can_reach() const { return pull_ && setting_.layout.hosts() == 1; }
  Result<std::unique_ptr<Plan>> compile_for(const ProvenProgram& program, const Call& call);
  static Result<const Plan*> keep(std::unique_ptr<Plan>& place, Result<std::unique_ptr<Plan>> compiled);

  Setting setting_;
  LinkTable& links_;
  bool settled_ = false;
  bool pull_ = false;                 // every rank can read the memory of every other of its host
  std::vector<SelectionRule> rules_;  // by which programs are chosen
  std::vector<std::unique_ptr<ProvenProgram>> installed_;
  std::array<Cached, 64> choices_;
  std::map<PlanKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace tutti
