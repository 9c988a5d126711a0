#include "simulation/run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tutti::simulation {
namespace {

enum EventKind : std::uint32_t { kWorkerGoesOn, kPieceComesToLink, kPieceArrives };

constexpr int kWaitsTold = 3;

}  // namespace

Run::Run(FlatProgram program, const Topology& topology, int ranks, double chunk_bytes, const SimulationOptions& options)
    : program_(std::move(program)), options_(options), tile_bytes_(chunk_bytes), last_tile_bytes_(chunk_bytes) {
  if (const auto tile = static_cast<double>(options.tile); tile > 0 && tile < chunk_bytes) {
    tiles_ = static_cast<std::uint32_t>(std::ceil(chunk_bytes / tile));
    tile_bytes_ = tile;
    last_tile_bytes_ = chunk_bytes - tile * (tiles_ - 1);
  }
  for (const Link& link : topology.links())
    links_.push_back({.seconds_per_byte = 1 / link.capacity.value(), .latency = link.latency.value()});
  channels_.resize(program_.channels.size());
  simulation_.rank_seconds.resize(static_cast<std::size_t>(ranks));
  for (std::uint32_t index = 0; index < program_.workers.size(); ++index) {
    const FlatWorker& worker = program_.workers[index];
    workers_.push_back({.tile = worker.steps > 0 ? 0 : tiles_, .step = worker.first_step});
    if (worker.sends_on != kNone) channels_[static_cast<std::size_t>(worker.sends_on)].sender = index;
    if (worker.receives_on != kNone) channels_[static_cast<std::size_t>(worker.receives_on)].receiver = index;
    if (worker.steps == 0) continue;
    ++unfinished_;
    ready_.push_back(index);
  }
}

Result<Simulation> Run::finish() {
  while (true) {
    // Workers woken on the way come to the end of the list, and their turn comes at the same time.
    for (std::size_t i = 0; i < ready_.size(); ++i) advance(ready_[i]);
    ready_.clear();
    if (events_.empty()) break;
    const ScheduledEvent event = events_.take();
    now_ = event.time;
    switch (event.kind) {
      case kWorkerGoesOn:
        ready_.push_back(event.subject);
        break;
      case kPieceComesToLink:
        pass_link(event.subject);
        break;
      default:
        arrive(event.subject);
    }
  }
  if (unfinished_ > 0) return fail(ErrorCode::invalid_argument, deadlock());
  return result();
}

double Run::bytes_of(const FlatStep& step, std::uint32_t tile) const {
  return step.chunks * (tile + 1 < tiles_ ? tile_bytes_ : last_tile_bytes_);
}

/// As far as it can go at this time. Each phase knows the next one before it may have to wait.
void Run::advance(std::uint32_t worker) {
  SimulatedWorker& state = workers_[worker];
  while (state.tile < tiles_) {
    const FlatStep& step = program_.steps[state.step];
    switch (state.phase) {
      case StepPhase::waits:
        if (!dependencies_met(worker)) return;
        state.phase = StepPhase::receives;
        if (spends(worker, options_.step_seconds)) return;
        break;
      case StepPhase::receives:
        if (receives(step.kind) && !has_arrived(worker)) return;
        state.phase = StepPhase::takes;
        if (options_.memory_rate > 0 && spends(worker, step.passes * bytes_of(step, state.tile) / options_.memory_rate))
          return;
        break;
      case StepPhase::takes:
        if (receives(step.kind)) take(worker);
        state.phase = StepPhase::sends;
        break;
      case StepPhase::sends:
        if (sends(step.kind)) {
          if (launch(worker)) state.phase = StepPhase::ends;
          return;
        }
        state.phase = StepPhase::ends;
        break;
      case StepPhase::ends:
        end_step(worker);
    }
  }
}

/// Else it is in the list of the step it waits for.
bool Run::dependencies_met(std::uint32_t worker) {
  SimulatedWorker& state = workers_[worker];
  const auto needed = program_.dependencies_of(state.step);
  for (; state.dependency < needed.size(); ++state.dependency) {
    const FlatDependency& one = needed[state.dependency];
    const SimulatedWorker& other = workers_[one.worker];
    if (other.tile > state.tile || (other.tile == state.tile && other.step > one.step)) continue;
    FlatStep& awaited = program_.steps[one.step];
    state.next_waiting = std::exchange(awaited.waiting, static_cast<std::int32_t>(worker));
    return false;
  }
  return true;
}

/// Whether the worker is busy for a while.
bool Run::spends(std::uint32_t worker, double seconds) {
  if (seconds <= 0) return false;
  events_.add(now_ + seconds, kWorkerGoesOn, worker);
  return true;
}

bool Run::has_arrived(std::uint32_t worker) {
  ChannelState& channel = channels_[static_cast<std::size_t>(program_.workers[worker].receives_on)];
  channel.receiver_waits = channel.arrived == channel.taken;
  return !channel.receiver_waits;
}

void Run::take(std::uint32_t worker) {
  ChannelState& channel = channels_[static_cast<std::size_t>(program_.workers[worker].receives_on)];
  ++channel.taken;
  if (std::exchange(channel.sender_waits, false)) ready_.push_back(channel.sender);
}

/// Sends a piece off where there is room; the worker then goes on when its last byte has left.
bool Run::launch(std::uint32_t worker) {
  const SimulatedWorker& state = workers_[worker];
  const auto index = static_cast<std::uint32_t>(program_.workers[worker].sends_on);
  ChannelState& channel = channels_[index];
  channel.sender_waits = channel.sent - channel.taken >= static_cast<std::uint32_t>(options_.slots);
  if (channel.sender_waits) return false;
  ++channel.sent;
  ++simulation_.pieces;
  const std::uint32_t piece = add_piece({.bytes = bytes_of(program_.steps[state.step], state.tile),
                                         .last_byte = now_,
                                         .channel = index,
                                         .flight = static_cast<std::uint32_t>(simulation_.flights.size())});
  const Passage passage = pass_link(piece);
  if (options_.keeps_flights) note_flight(worker, passage.begins);
  events_.add(passage.left, kWorkerGoesOn, worker);
  return true;
}

void Run::end_step(std::uint32_t worker) {
  SimulatedWorker& state = workers_[worker];
  const FlatWorker& own = program_.workers[worker];
  const std::uint32_t tile = state.tile, step = state.step;
  state.phase = StepPhase::waits;
  state.dependency = 0;
  if (++state.step == own.first_step + own.steps) {
    state.step = own.first_step;
    if (++state.tile == tiles_) {
      --unfinished_;
      double& done = simulation_.rank_seconds[static_cast<std::size_t>(own.rank)];
      done = std::max(done, now_);
    }
  }
  // The list has the last to come first; they go on in the order they came. Whoever waits for a later tile stays.
  const auto woken = static_cast<std::ptrdiff_t>(ready_.size());
  std::int32_t each = std::exchange(program_.steps[step].waiting, kNone);
  while (each != kNone) {
    SimulatedWorker& other = workers_[static_cast<std::size_t>(each)];
    const std::int32_t next = other.next_waiting;
    if (other.tile <= tile)
      ready_.push_back(static_cast<std::uint32_t>(each));
    else
      other.next_waiting = std::exchange(program_.steps[step].waiting, each);
    each = next;
  }
  std::reverse(ready_.begin() + woken, ready_.end());
}

/// A piece whose head has come to its next link waits for its turn there. Its last byte leaves when the link has
/// served it, but not before it has come.
Run::Passage Run::pass_link(std::uint32_t index) {
  SimulatedPiece& piece = pieces_[index];
  const auto links = program_.links_of(program_.channels[piece.channel]);
  LinkState& link = links_[static_cast<std::size_t>(links[piece.links_passed])];
  const double seconds = piece.bytes * link.seconds_per_byte;
  const double begins = std::max(now_, link.free);
  link.free = begins + seconds;
  link.busy += seconds;
  piece.last_byte = std::max(link.free, piece.last_byte) + link.latency;
  if (++piece.links_passed < links.size())
    events_.add(begins + link.latency, kPieceComesToLink, index);
  else
    events_.add(piece.last_byte, kPieceArrives, index);
  return {begins, link.free};
}

void Run::arrive(std::uint32_t index) {
  const SimulatedPiece& piece = pieces_[index];
  ChannelState& channel = channels_[piece.channel];
  ++channel.arrived;
  if (std::exchange(channel.receiver_waits, false)) ready_.push_back(channel.receiver);
  if (options_.keeps_flights) simulation_.flights[piece.flight].ends = now_;
  free_pieces_.push_back(index);
}

std::uint32_t Run::add_piece(const SimulatedPiece& piece) {
  if (free_pieces_.empty()) {
    pieces_.push_back(piece);
    return static_cast<std::uint32_t>(pieces_.size() - 1);
  }
  const std::uint32_t index = free_pieces_.back();
  free_pieces_.pop_back();
  pieces_[index] = piece;
  return index;
}

void Run::note_flight(std::uint32_t worker, double begins) {
  const FlatWorker& own = program_.workers[worker];
  const FlatChannel& channel = program_.channels[static_cast<std::size_t>(own.sends_on)];
  const SimulatedWorker& state = workers_[worker];
  simulation_.flights.push_back({.from = channel.from,
                                 .to = channel.to,
                                 .channel = channel.number,
                                 .worker = own.index,
                                 .step = static_cast<int>(state.step - own.first_step),
                                 .tile = static_cast<int>(state.tile),
                                 .begins = begins});
}

Simulation Run::result() {
  for (const double seconds : simulation_.rank_seconds) simulation_.seconds = std::max(simulation_.seconds, seconds);
  for (const LinkState& link : links_) simulation_.link_busy.push_back(link.busy);
  std::stable_sort(simulation_.flights.begin(), simulation_.flights.end(),
                   [](const Flight& one, const Flight& other) { return one.begins < other.begins; });
  return std::move(simulation_);
}

std::string Run::deadlock() const {
  std::string told = "deadlock: ";
  int waiting = 0;
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker)
    if (workers_[worker].tile < tiles_ && waiting++ < kWaitsTold)
      told += (waiting > 1 ? "; " : "") + describe_wait(worker);
  if (waiting > kWaitsTold) told += fmt::format("; and {} more", waiting - kWaitsTold);
  return told;
}

std::string Run::describe_wait(std::uint32_t worker) const {
  const SimulatedWorker& state = workers_[worker];
  const FlatWorker& own = program_.workers[worker];
  const std::string who = fmt::format("rank {} worker {} step {}", own.rank, own.index, state.step - own.first_step);
  if (state.phase == StepPhase::waits) {
    const FlatDependency& needed = program_.dependencies_of(state.step)[state.dependency];
    const FlatWorker& other = program_.workers[needed.worker];
    return fmt::format("{} waits for worker {} step {}", who, other.index, needed.step - other.first_step);
  }
  const bool sends_now = state.phase == StepPhase::sends;
  const FlatChannel& channel = program_.channels[static_cast<std::size_t>(sends_now ? own.sends_on : own.receives_on)];
  return sends_now ? fmt::format("{} waits for room on channel {} to rank {}", who, channel.number, channel.to)
                   : fmt::format("{} waits for a piece on channel {} from rank {}", who, channel.number, channel.from);
}

}  // namespace tutti::simulation
