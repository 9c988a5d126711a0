#include "communicator/operation/plan_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "monitor/recorder.hpp"

namespace tutti {
namespace {

constexpr std::size_t kPointToPointTile = 4 << 20;  // between hosts
constexpr std::size_t kInstalledTile = 1 << 20;

/// Whether the algorithm keeps operands in the order the call needs; a rule made for other calls may name one that
/// does not.
bool keeps_order(const std::string& name, const CallContext& context) {
  const Algorithm* const algorithm = find_algorithm(name);
  if (algorithm == nullptr || !reduces(context.collective)) return true;
  if (context.rank_order) return algorithm->rank_order;
  return !context.ordered || algorithm->rank_order || algorithm->ordered_operands;
}

void log_choice(int rank, const Call& call, const PreparedCall& prepared) {
  if (!log::enabled(log::Level::debug)) return;
  const auto name = [](const TiledPlan& tiled) {
    return fmt::format("{} in parts of {} B", tiled.plan->name, tiled.tile);
  };
  log::debug("rank {}: {} of {} x {}: program {}{}", rank, name_of(call.collective), call.count, name_of(call.type),
             name(prepared.plan),
             prepared.when_mapped.plan == nullptr ? "" : ", on mapped buffers " + name(prepared.when_mapped));
}

tl::unexpected<Error> unreachable(const std::string& name) {
  return fail(ErrorCode::unsupported, fmt::format("program {} needs ranks that can read each other's memory", name));
}

}  // namespace

PlanCache::PlanCache(Setting setting, LinkTable& links) : setting_(std::move(setting)), links_(links) {}

Result<PreparedCall> PlanCache::prepare(const Call& call) {
  if (call.uneven) return choose_and_compile(call);
  const CallKey key = CallKey::of(call);
  Cached& cached = choices_[key.hash() % choices_.size()];
  if (cached.valid && cached.key == key) return cached.prepared;
  Result<PreparedCall> prepared = choose_and_compile(call);
  if (prepared) cached = {true, key, *prepared};
  if (prepared) log_choice(setting_.rank, call, *prepared);
  return prepared;
}

Result<PreparedCall> PlanCache::choose_and_compile(const Call& call) {
  if (call.collective == Collective::point_to_point) return prepare_point_to_point(call);
  CallContext context;
  context.collective = call.collective;
  context.ranks = setting_.layout.ranks();
  context.bytes = bytes_of(call, context.ranks);
  context.hosts = setting_.layout.hosts();
  context.even_hosts = setting_.layout.even();
  context.rank_order = setting_.reproducible;
  context.ordered = call.reduction.op == Operator::user;
  context.own_counts =
      call.uneven && call.collective != Collective::all_gather && call.collective != Collective::reduce_scatter;
  if (const ProvenProgram* const found = program_for(call, context.bytes)) {
    const Program* const program = &**found;
    auto& plan = plans_[PlanKey{fmt::format("{}@{}", program->name, fmt::ptr(program)), call.collective, call.root,
                                call.in_place, true}];
    if (plan == nullptr)
      if (const auto kept = keep(plan, compile_for(*found, call)); !kept) return tl::unexpected(kept.error());
    if (plan->reaches && !can_reach()) return unreachable(program->name);
    return PreparedCall{{plan.get(), program->tile != 0 ? program->tile : kInstalledTile}, {}, signature_of(call)};
  }
  Choice choice = select(context, rules_);
  if (!keeps_order(choice.algorithm, context)) choice = select(context, {});
  Result<const Plan*> plan = plan_for(choice.algorithm, call);
  if (!plan) return tl::unexpected(plan.error());
  // A rule made for even blocks may name what cannot run others.
  if (call.uneven && !(*plan)->fits_uneven()) {
    choice = {.algorithm = "oneshot"};
    plan = plan_for(choice.algorithm, call);
    if (!plan) return tl::unexpected(plan.error());
  }
  if ((*plan)->reaches && !can_reach()) return unreachable(choice.algorithm);
  PreparedCall prepared{{*plan, choice.tile}, {}, signature_of(call)};
  if (!choice.when_mapped.empty()) {
    Result<const Plan*> mapped = plan_for(choice.when_mapped, call);
    if (!mapped) return tl::unexpected(mapped.error());
    prepared.when_mapped = {*mapped, choice.mapped_tile};
  }
  return prepared;
}

Result<PreparedCall> PlanCache::prepare_point_to_point(const Call& call) {
  // Routes the one channel of the program to the link that is kept for sends and receives.
  class PointToPointLinks final : public Links {
   public:
    explicit PointToPointLinks(LinkTable& table) : table_(table) {}
    Result<SendLink*> send_link(int rank, int) override { return table_.point_to_point_send(rank); }
    Result<RecvLink*> recv_link(int rank, int) override { return table_.point_to_point_recv(rank); }
    std::size_t window() const override { return table_.window(); }

   private:
    LinkTable& table_;
  };
  const PlanKey key{"", call.collective, call.root, false, call.sends};
  auto& plan = plans_[key];
  if (plan == nullptr) {
    const int place = call.sends ? 0 : 1;
    Result<ProvenProgram> program =
        proven_program("oneshot", Collective::point_to_point, Layout::one_host(2), 0, place);
    if (!program) return tl::unexpected(program.error());
    const int sender = call.sends ? setting_.rank : call.root;
    const int receiver = call.sends ? call.root : setting_.rank;
    PointToPointLinks links(links_);
    const auto kept = keep(plan, compile(**program, place, false, links, {sender, receiver}));
    if (!kept) return tl::unexpected(kept.error());
  }
  const std::size_t tile =
      links_.is_here(call.root) ? one_way_tile(call.count * size_of(call.type)) : kPointToPointTile;
  return PreparedCall{{plan.get(), tile}, {}, signature_of(call)};
}

Result<ProvenProgram> PlanCache::proven_program(const std::string& algorithm, Collective collective,
                                                const Layout& layout, int root, int rank) const {
  AlgorithmOptions options;
  options.root = root;
  Result<Program> program = make_program(algorithm, collective, layout, options);
  if (!program) return tl::unexpected(program.error());
  // All that a generator looks at.
  const std::string key = fmt::format("{} {} {} {} {}", algorithm, name_of(collective), root,
                                      fmt::join(layout.host_of, ","), fmt::join(layout.leaf_of_host, ","));
  return Proofs::of_process().prove_once(key, std::move(*program), rank);
}

Result<const Plan*> PlanCache::plan_for(const std::string& algorithm, const Call& call) {
  const int root = has_root(call.collective) ? call.root : 0;
  auto& plan = plans_[PlanKey{algorithm, call.collective, root, call.in_place, true}];
  if (plan != nullptr) return plan.get();
  Result<ProvenProgram> program = proven_program(algorithm, call.collective, setting_.layout, root, setting_.rank);
  if (!program) return tl::unexpected(program.error());
  return keep(plan, compile_for(*program, call));
}

Result<const Plan*> PlanCache::keep(std::unique_ptr<Plan>& place, Result<std::unique_ptr<Plan>> compiled) {
  if (!compiled) return tl::unexpected(compiled.error());
  place = std::move(*compiled);
  place->recorded_as = monitor::Recorder::of_process().program(place->name);
  return place.get();
}

Result<std::unique_ptr<Plan>> PlanCache::compile_for(const ProvenProgram& proven, const Call& call) {
  const Program& program = *proven;
  if (call.in_place ? !program.in_place : !program.out_of_place)
    return fail(ErrorCode::unsupported,
                fmt::format("program {} cannot run {} place", program.name, call.in_place ? "in" : "out of"));
  if (program.one_sided && setting_.layout.hosts() > 1)
    return fail(ErrorCode::unsupported, fmt::format("program {} needs ranks that share a host", program.name));
  Result<std::unique_ptr<Plan>> compiled = compile(program, setting_.rank, call.in_place, links_);
  if (!compiled) return compiled;
  if ((*compiled)->one_sided)
    for (const int peer : (*compiled)->neighbours)
      if (Status attached = links_.attach(peer); !attached) return tl::unexpected(attached.error());
  return compiled;
}

void PlanCache::forget_choices() {
  for (Cached& cached : choices_) cached.valid = false;
}

std::uint64_t PlanCache::digest() const {
  std::vector<SelectionRule> rules = setting_.own_rules;
  rules.insert(rules.end(), setting_.tuned_rules.begin(), setting_.tuned_rules.end());
  return mix(hash_text(to_string(rules)), setting_.planned.digest);
}

void PlanCache::settle(bool pull) {
  settled_ = true;
  pull_ = pull;
  rules_ = setting_.own_rules;
  rules_.insert(rules_.end(), setting_.tuned_rules.begin(), setting_.tuned_rules.end());
  forget_choices();
}

void PlanCache::set_rules(std::vector<SelectionRule> rules) {
  rules_ = std::move(rules);
  forget_choices();
}

void PlanCache::install(ProvenProgram program) {
  installed_.push_back(std::make_unique<ProvenProgram>(std::move(program)));
  forget_choices();
}

bool PlanCache::fits(const Program& program, const Call& call, std::size_t bytes) const {
  const Shape& shape = program.shape;
  return shape.collective == call.collective && shape.ranks == setting_.layout.ranks() &&
         (!has_root(call.collective) || shape.root == call.root) && bytes >= program.min_bytes &&
         (program.max_bytes == 0 || bytes <= program.max_bytes) &&
         (call.in_place ? program.in_place : program.out_of_place);
}

const ProvenProgram* PlanCache::program_for(const Call& call, std::size_t bytes) const {
  for (auto program = installed_.rbegin(); program != installed_.rend(); ++program)
    if (fits(***program, call, bytes)) return program->get();
  if (!settled_) return nullptr;
  const auto& own = setting_.own_rules;
  const bool decided = std::any_of(own.begin(), own.end(),
                                   [&](const SelectionRule& rule) { return rule.collective == call.collective; });
  // Neither order nor uneven blocks are what planned programs were made for.
  if (decided || setting_.reproducible || call.reduction.op == Operator::user || call.uneven) return nullptr;
  for (const ProvenProgram& program : setting_.planned.programs)
    if (fits(*program, call, bytes)) return &program;
  return nullptr;
}

void PlanCache::clear() {
  forget_choices();
  plans_.clear();
  links_.close();
}

}  // namespace tutti
