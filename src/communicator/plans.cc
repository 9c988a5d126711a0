#include "communicator/plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "base/log.hpp"
#include "program/check.hpp"

namespace tutti {
namespace {

// Sends and receives have a channel of their own, beyond those that programs may use.
constexpr int kProgramChannels = CheckOptions{}.max_channels;
constexpr int kEndChannel = kProgramChannels;
constexpr std::size_t kEndTile = 4 << 20;
constexpr std::size_t kInstalledTile = 1 << 20;
constexpr std::size_t kDirectFrom = 16 << 10;  // sends of this size are read where they lie, if that can be mapped

/// Whether the algorithm keeps operands in the order the call needs; a rule made for other calls may name one that
/// does not.
bool keeps_order(const std::string& name, const Situation& situation) {
  const Algorithm* const algorithm = find_algorithm(name);
  if (algorithm == nullptr || !reduces(situation.collective)) return true;
  if (situation.rank_order) return algorithm->rank_order;
  return !situation.ordered || algorithm->rank_order || algorithm->ordered_operands;
}

void log_choice(int rank, const Call& call, const Prepared& prepared) {
  if (!log::enabled(log::Level::debug)) return;
  const auto name = [](const Way& way) { return fmt::format("{} in parts of {} B", way.plan->name, way.tile); };
  log::debug("rank {}: {} of {} x {}: program {}{}", rank, name_of(call.collective), call.count, name_of(call.type),
             name(prepared.way),
             prepared.when_mapped.plan == nullptr ? "" : ", on mapped buffers " + name(prepared.when_mapped));
}

tl::unexpected<Error> unreachable(const std::string& name) {
  return fail(ErrorCode::unsupported, fmt::format("program {} needs ranks that can read each other's memory", name));
}

}  // namespace

Plans::Plans(Setting setting, Host* host, std::unique_ptr<Remote> remote)
    : setting_(std::move(setting)), host_(host), remote_(std::move(remote)) {}

Plans::~Plans() = default;

Result<Prepared> Plans::prepare(const Call& call) {
  if (call.uneven) return select_and_compile(call);
  const Key key{call.collective, call.type, call.reduction.op, call.in_place, call.sends, call.root, call.count};
  const std::uint32_t signature = signature_of(call);
  Cached& cached = cache_[(signature ^ static_cast<std::uint32_t>(call.in_place) ^
                           static_cast<std::uint32_t>(call.root) ^ (call.sends ? 8U : 0U)) %
                          cache_.size()];
  if (cached.valid && cached.key == key) return cached.prepared;
  Result<Prepared> prepared = select_and_compile(call);
  if (prepared) cached = {true, key, *prepared};
  if (prepared) log_choice(setting_.rank, call, *prepared);
  return prepared;
}

Result<Prepared> Plans::select_and_compile(const Call& call) {
  if (call.collective == Collective::point_to_point) return prepare_end(call);
  Situation situation;
  situation.collective = call.collective;
  situation.ranks = setting_.layout.ranks();
  situation.bytes = bytes_of(call, situation.ranks);
  situation.hosts = setting_.layout.hosts();
  situation.even_hosts = setting_.layout.even();
  situation.rank_order = setting_.reproducible;
  situation.ordered = call.reduction.op == Operator::user;
  situation.own_counts =
      call.uneven && call.collective != Collective::all_gather && call.collective != Collective::reduce_scatter;
  if (const Program* const program = program_for(call, situation.bytes)) {
    auto& plan = plans_[PlanKey{fmt::format("{}@{}", program->name, fmt::ptr(program)), call.collective, call.root,
                                call.in_place, true}];
    if (plan == nullptr)
      if (const auto kept = keep(plan, compile_for(*program, call)); !kept) return tl::unexpected(kept.error());
    if (plan->reaches && !can_reach()) return unreachable(program->name);
    return Prepared{{plan.get(), program->tile != 0 ? program->tile : kInstalledTile}, {}, signature_of(call)};
  }
  Choice choice = select(situation, setting_.rules);
  if (!keeps_order(choice.algorithm, situation)) choice = select(situation, {});
  Result<const Plan*> plan = plan_for(choice.algorithm, call);
  if (!plan) return tl::unexpected(plan.error());
  // A rule made for even blocks may name what cannot run others.
  if (call.uneven && !(*plan)->fits_uneven()) {
    choice = {.algorithm = "oneshot"};
    plan = plan_for(choice.algorithm, call);
    if (!plan) return tl::unexpected(plan.error());
  }
  if ((*plan)->reaches && !can_reach()) return unreachable(choice.algorithm);
  Prepared prepared{{*plan, choice.tile}, {}, signature_of(call)};
  if (!choice.when_mapped.empty()) {
    Result<const Plan*> mapped = plan_for(choice.when_mapped, call);
    if (!mapped) return tl::unexpected(mapped.error());
    prepared.when_mapped = {*mapped, choice.mapped_tile};
  }
  return prepared;
}

/// Routes the one channel of a point-to-point program to the channel kept for them.
class Plans::EndLinks final : public Links {
 public:
  explicit EndLinks(Plans& plans) : plans_(plans) {}
  Result<SendLink*> send_link(int rank, int) override { return plans_.open_send(rank, kEndChannel); }
  Result<RecvLink*> recv_link(int rank, int) override { return plans_.open_recv(rank, kEndChannel); }

 private:
  Plans& plans_;
};

Result<Prepared> Plans::prepare_end(const Call& call) {
  const PlanKey key{"", call.collective, call.root, false, call.sends};
  auto& plan = plans_[key];
  if (plan == nullptr) {
    Result<Program> program = make_program("oneshot", Collective::point_to_point, Layout::one_host(2));
    if (!program) return tl::unexpected(program.error());
    const int sender = call.sends ? setting_.rank : call.root;
    const int receiver = call.sends ? call.root : setting_.rank;
    EndLinks links(*this);
    const auto kept = keep(plan, compile(*program, call.sends ? 0 : 1, false, links, {sender, receiver}));
    if (!kept) return tl::unexpected(kept.error());
  }
  const std::size_t tile = is_here(call.root) ? one_way_tile(call.count * size_of(call.type)) : kEndTile;
  return Prepared{{plan.get(), tile}, {}, signature_of(call)};
}

Result<const Plan*> Plans::plan_for(const std::string& algorithm, const Call& call) {
  const int root = has_root(call.collective) ? call.root : 0;
  auto& plan = plans_[PlanKey{algorithm, call.collective, root, call.in_place, true}];
  if (plan != nullptr) return plan.get();
  AlgorithmOptions options;
  options.root = root;
  Result<Program> program = make_program(algorithm, call.collective, setting_.layout, options);
  if (!program) return tl::unexpected(program.error());
  return keep(plan, compile_for(*program, call));
}

Result<const Plan*> Plans::keep(std::unique_ptr<Plan>& place, Result<std::unique_ptr<Plan>> compiled) {
  if (!compiled) return tl::unexpected(compiled.error());
  place = std::move(*compiled);
  place->recorded_as = monitor::Recorder::of_process().program(place->name);
  return place.get();
}

Result<std::unique_ptr<Plan>> Plans::compile_for(const Program& program, const Call& call) {
  if (call.in_place ? !program.in_place : !program.out_of_place)
    return fail(ErrorCode::unsupported,
                fmt::format("program {} cannot run {} place", program.name, call.in_place ? "in" : "out of"));
  if (program.one_sided && setting_.layout.hosts() > 1)
    return fail(ErrorCode::unsupported, fmt::format("program {} needs ranks that share a host", program.name));
  Result<std::unique_ptr<Plan>> compiled = compile(program, setting_.rank, call.in_place, *this);
  if (!compiled) return compiled;
  if ((*compiled)->one_sided)
    for (const int peer : (*compiled)->neighbours)
      if (Status attached = attach(peer); !attached) return tl::unexpected(attached.error());
  return compiled;
}

void Plans::forget_choices() {
  for (Cached& cached : cache_) cached.valid = false;
}

void Plans::set_pull(bool pull) {
  setting_.pull = pull;
  forget_choices();
}

void Plans::set_rules(std::vector<Rule> rules) {
  setting_.rules = std::move(rules);
  forget_choices();
}

void Plans::install(Program program) {
  installed_.push_back(std::make_unique<Program>(std::move(program)));
  forget_choices();
}

void Plans::set_planned(std::vector<Program> programs) {
  planned_ = std::move(programs);
  forget_choices();
}

bool Plans::fits(const Program& program, const Call& call, std::size_t bytes) const {
  const Shape& shape = program.shape;
  return shape.collective == call.collective && shape.ranks == setting_.layout.ranks() &&
         (!has_root(call.collective) || shape.root == call.root) && bytes >= program.min_bytes &&
         (program.max_bytes == 0 || bytes <= program.max_bytes) &&
         (call.in_place ? program.in_place : program.out_of_place);
}

const Program* Plans::program_for(const Call& call, std::size_t bytes) const {
  for (auto program = installed_.rbegin(); program != installed_.rend(); ++program)
    if (fits(**program, call, bytes)) return program->get();
  const auto& own = setting_.own_rules;
  const bool decided =
      std::any_of(own.begin(), own.end(), [&](const Rule& rule) { return rule.collective == call.collective; });
  // Neither order nor uneven blocks are what planned programs were made for.
  if (decided || setting_.reproducible || call.reduction.op == Operator::user || call.uneven) return nullptr;
  for (const Program& program : planned_)
    if (fits(program, call, bytes)) return &program;
  return nullptr;
}

Status Plans::attach(int rank) {
  Status attached = host_->attach(rank);
  if (!attached) attached.error().peer = rank;
  return attached;
}

/// Fails where a program uses a channel that there is not.
Status Plans::check_channel(int rank, int channel) const {
  const int channels = is_here(rank) ? kShmChannels : kProgramChannels;
  if (channel < channels) return {};
  return fail(ErrorCode::unsupported, fmt::format("channel {}: programs have {} channels {}", channel, channels,
                                                  is_here(rank) ? "in shared memory" : "over TCP"));
}

Result<SendLink*> Plans::send_link(int rank, int channel) {
  if (Status within = check_channel(rank, channel); !within) return tl::unexpected(within.error());
  return open_send(rank, channel);
}

Result<RecvLink*> Plans::recv_link(int rank, int channel) {
  if (Status within = check_channel(rank, channel); !within) return tl::unexpected(within.error());
  return open_recv(rank, channel);
}

Result<SendLink*> Plans::open_send(int rank, int channel) {
  auto& link = send_links_[{rank, channel}];
  if (link != nullptr) return link.get();
  if (is_here(rank)) {
    if (Status attached = attach(rank); !attached) return tl::unexpected(attached.error());
    DirectFrom direct{.mapped = kDirectFrom};
    if (host_->memory_of(rank).same_process()) direct.ordinary = kDirectFrom;
    link = host_->open_send(rank, channel == kEndChannel ? kShmPipes - 1 : channel, direct);
  } else {
    link = remote_->open_send(rank, channel);
  }
  return watch(link.get(), rank, channel, false);
}

Result<RecvLink*> Plans::open_recv(int rank, int channel) {
  auto& link = recv_links_[{rank, channel}];
  if (link != nullptr) return link.get();
  if (is_here(rank)) {
    if (Status attached = attach(rank); !attached) return tl::unexpected(attached.error());
    link = host_->open_recv(rank, channel == kEndChannel ? kShmPipes - 1 : channel);
  } else {
    link = remote_->open_recv(rank, channel);
  }
  return watch(link.get(), rank, channel, true);
}

template <typename Link>
Link* Plans::watch(Link* link, int rank, int channel, bool receives) {
  if (setting_.record == nullptr) return link;
  auto* const record = monitor::Recorder::of_process().open_link(*setting_.record, rank, channel, receives);
  if (record != nullptr) link->observe(*record);
  return link;
}

void Plans::drop_links() {
  // Plans point to links, so they go first.
  for (Cached& cached : cache_) cached.valid = false;
  plans_.clear();
  send_links_.clear();
  recv_links_.clear();
}

}  // namespace tutti
