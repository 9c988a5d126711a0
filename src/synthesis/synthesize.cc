#include "synthesis/synthesize.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "program/check/check.hpp"
#include "simulation/references.hpp"
#include "simulation/simulate.hpp"
#include "synthesis/elapsed.hpp"
#include "synthesis/generators.hpp"
#include "synthesis/price.hpp"

namespace tutti {

namespace {

constexpr std::string_view kLibrary = "library";
constexpr int kMostRanksForReferences = 64;
constexpr int kMostRanksForLibraryFirst =
    256;  // its rings grow with the square of the ranks: beyond, others come first

class ProgramSearch {
 public:
  ProgramSearch(SynthesisTask& task, const SynthesisRequest& request, Bound bound)
      : task_(task), request_(request), deadline_(Deadline::in(request.seconds)) {
    result_.bound = std::move(bound);
    task.bound = result_.bound.certificates.empty() ? nullptr : &result_.bound;
    for (const std::uint64_t bytes : request.sizes) {
      Best& best = bests_.emplace_back();
      best.kept.bytes = bytes;
      best.kept.simulated = std::numeric_limits<double>::infinity();
      best.kept.bound = result_.bound.seconds(static_cast<double>(bytes));
    }
  }

  Result<Synthesis> run() && {
    for (const Generator* generator : order()) {
      enough_ = generator->in_any_case ? 0 : request_.enough;
      if (stopped()) continue;
      if (!tell(generator->name, nullptr)) break;
      try_generator(*generator);
    }
    result_.seconds = seconds_since(start_);
    price_references();
    if (std::any_of(bests_.begin(), bests_.end(), [](const Best& best) { return std::isinf(best.kept.simulated); }))
      return fail(ErrorCode::timed_out, fmt::format("no program was found in {:.1f} s{}", result_.seconds,
                                                    last_error_.empty() ? "" : "; " + last_error_));
    keep_programs();
    return std::move(result_);
  }

 private:
  struct Best {
    Synthesized kept;
    Program program = {};
    std::uint64_t tile = 0;
  };

  std::vector<const Generator*> order() const {
    std::vector<const Generator*> chosen;
    for (const Generator& generator : generators())
      if (generator.fits(task_) && (request_.methods.empty() || is_named(generator.name))) chosen.push_back(&generator);
    if (task_.topology.ranks() > kMostRanksForLibraryFirst)
      std::stable_partition(chosen.begin(), chosen.end(), [](const auto* one) { return one->name != kLibrary; });
    return chosen;
  }

  bool is_named(std::string_view name) const {
    const auto& methods = request_.methods;
    return std::find(methods.begin(), methods.end(), name) != methods.end();
  }

  bool is_enough(const Best& best) const {
    constexpr double kRounding = 1e-6;
    return best.kept.gap() <= enough_ + kRounding;
  }

  bool stopped() const {
    return interrupted() || deadline_.passed() ||
           std::all_of(bests_.begin(), bests_.end(), [&](const Best& best) { return is_enough(best); });
  }

  bool interrupted() const { return result_.interrupted; }

  void try_generator(const Generator& generator) {
    const bool library = generator.name == kLibrary;
    const auto consider_all = [&](Proposal proposal) {
      consider(proposal, bests_.size(), 0, library);
      return !(library ? interrupted() || deadline_.passed() : stopped()) && tell(generator.name, nullptr);
    };
    if (!generator.for_each_size) return generator.make(task_, request_.sizes.back(), deadline_, consider_all);
    for (std::size_t at = 0; at < bests_.size() && !stopped(); ++at) {
      if (is_enough(bests_[at])) continue;
      // Every size gets its share of the time that is left.
      const double share = deadline_.seconds_left() / static_cast<double>(bests_.size() - at);
      generator.make(task_, request_.sizes[at], Deadline::in(share), [&](const Proposal& proposal) {
        consider(proposal, at + 1, at, false);
        return !interrupted() && !is_enough(bests_[at]) && tell(generator.name, nullptr);
      });
    }
  }

  /// Prices a proposal for the sizes before `end`, down to `first`: from the largest on, whose busiest link tells what
  /// the others cannot undercut.
  void consider(const Proposal& proposal, std::size_t end, std::size_t first, bool library) {
    const auto simulator = Simulator::of(proposal.program, task_.routes);
    if (!simulator) {
      last_error_ = fmt::format("{}: {}", proposal.generator, simulator.error().message);
      return;
    }
    double rate = 0;  // seconds per byte, of the busiest link
    for (std::size_t at = end; at-- > first && !deadline_.passed();) {
      const Best& best = bests_[at];
      const bool hopeless = rate * static_cast<double>(best.kept.bytes) >= best.kept.simulated;
      if (!library && (is_enough(best) || hopeless)) continue;
      const auto priced = price(*simulator, proposal.program.shape, best.kept.bytes, limits_for(best, library));
      if (!priced) {
        last_error_ = fmt::format("{}: {}", proposal.generator, priced.error().message);
        return;
      }
      rate = priced->busiest_link / static_cast<double>(best.kept.bytes);
      if (library) note_rival(proposal.generator, at, priced->seconds);
      if (proposal.model_seconds > 0) note_rival(proposal.generator + ", its model", at, proposal.model_seconds);
      if (priced->seconds >= best.kept.simulated) continue;
      if (!may_run(proposal)) return;
      keep(proposal, *priced, at);
    }
  }

  /// Many instances or channels make more workers than a rank may have.
  bool may_run(const Proposal& proposal) {
    if (task_.topology.ranks() > kMostRanksToCheck) return true;
    const auto violation = check_limits(proposal.program);
    if (violation) last_error_ = fmt::format("{}: {}", proposal.generator, violation->to_string());
    return !violation;
  }

  /// The library's algorithms need no more care than it takes to hold others against them.
  PriceLimits limits_for(const Best& best, bool library) const {
    constexpr double kShareOfEnough = 0.25;  // a better tile costs less than a better program
    if (library) return {.worthwhile = 0.01, .most_pieces = 100'000};
    return {.enough = best.kept.bound * (1 + kShareOfEnough * enough_), .hopeless = best.kept.simulated};
  }

  void keep(const Proposal& proposal, const Price& priced, std::size_t at) {
    Best& best = bests_[at];
    best.kept.generator = proposal.generator;
    best.kept.simulated = priced.seconds;
    best.kept.found_after = seconds_since(start_);
    best.program = proposal.program;
    best.tile = priced.tile;
    if (at + 1 == bests_.size()) result_.link_busy = priced.link_busy;
    tell(proposal.generator, &best);
  }

  void note_rival(const std::string& name, std::size_t at, double seconds) {
    auto& rivals = result_.rivals;
    if (rivals.empty() || rivals.back().name != name) rivals.push_back({name, std::vector<double>(bests_.size())});
    rivals.back().simulated[at] = seconds;
  }

  /// What NCCL would take: to hold the best against it, and to take its way where that is better.
  void price_references() {
    if (interrupted() || task_.topology.ranks() > kMostRanksForReferences || task_.plan != nullptr) return;
    for (const Reference& reference : reference_programs(task_.routes, task_.collective, task_.root)) {
      if (!reference.name.starts_with("nccl")) continue;  // the library's were tried
      const auto simulator = Simulator::of(reference.program, task_.routes);
      if (!simulator) continue;
      const std::uint64_t tile = reference.program.tile;
      for (std::size_t at = 0; at < bests_.size(); ++at) {
        const auto run = simulator->run({.bytes = bests_[at].kept.bytes, .tile = tile});
        if (!run) continue;
        note_rival(reference.name, at, run->seconds);
        if (request_.methods.empty() && run->seconds < bests_[at].kept.simulated)
          keep({reference.name, reference.program, 0},
               {.seconds = run->seconds, .tile = tile, .link_busy = run->link_busy}, at);
      }
    }
  }

  bool tell(std::string_view stage, const Best* changed) {
    if (!request_.progress || interrupted()) return !interrupted();
    SynthesisProgress progress{.stage = std::string(stage), .elapsed = seconds_since(start_)};
    if (changed != nullptr) {
      progress.bytes = changed->kept.bytes;
      progress.seconds = changed->kept.simulated;
      progress.gap = changed->kept.gap();
    }
    for (const Best& best : bests_) progress.worst_gap = std::max(progress.worst_gap, best.kept.gap());
    result_.interrupted = !request_.progress(progress);
    return !interrupted();
  }

  /// Sizes next to each other with the same program and tile share it.
  void keep_programs() {
    for (std::size_t at = 0; at < bests_.size(); ++at) {
      Best& best = bests_[at];
      const bool same =
          at > 0 && best.kept.generator == bests_[at - 1].kept.generator && best.tile == bests_[at - 1].tile;
      if (!same) {
        Program& program = result_.programs.emplace_back(best.program);
        program.tile = best.tile;
        program.min_bytes = at == 0 ? 0 : end_of_range(bests_[at - 1].kept.bytes, best.kept.bytes) + 1;
      }
      best.kept.program = static_cast<int>(result_.programs.size()) - 1;
      if (at > 0 && !same)
        result_.programs[static_cast<std::size_t>(best.kept.program) - 1].max_bytes =
            end_of_range(bests_[at - 1].kept.bytes, best.kept.bytes);
      result_.sizes.push_back(best.kept);
    }
  }

  SynthesisTask& task_;
  const SynthesisRequest& request_;
  Deadline deadline_;
  double enough_ = 0;  // gap, for the generator at work
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Best> bests_;
  Synthesis result_;
  std::string last_error_;
};

Status check_request(const Topology& topology, const SynthesisRequest& request) {
  if (request.sizes.empty() || !std::is_sorted(request.sizes.begin(), request.sizes.end()) || request.sizes[0] == 0)
    return fail(ErrorCode::invalid_argument, "sizes must be above 0, and ascending");
  if (topology.ranks() < 2)
    return fail(ErrorCode::invalid_argument, "one GPU has nothing to send, so there is nothing to synthesize");
  const auto known = synthesis_methods();
  for (const std::string& method : request.methods)
    if (std::find(known.begin(), known.end(), method) == known.end())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' is no method; there are {}", method, fmt::join(known, ", ")));
  return {};
}

}  // namespace

std::uint64_t end_of_range(std::uint64_t smaller, std::uint64_t larger) {
  return static_cast<std::uint64_t>(std::sqrt(static_cast<double>(smaller) * static_cast<double>(larger)));
}

std::vector<std::string> synthesis_methods() {
  std::vector<std::string> names;
  for (const Generator& generator : generators()) names.emplace_back(generator.name);
  return names;
}

Result<Synthesis> synthesize(const Topology& topology, const SynthesisRequest& request) {
  if (const Status right = check_request(topology, request); !right) return tl::unexpected(right.error());
  const auto start = std::chrono::steady_clock::now();
  const BoundOptions options{.seconds = std::min(1.0, request.seconds / 4)};
  auto proven = bound(topology, request.collective, request.root, options);
  if (!proven) return tl::unexpected(proven.error());
  SynthesisTask task(topology, request);
  SynthesisRequest rest = request;
  rest.seconds = std::max(0.0, request.seconds - seconds_since(start));
  auto found = ProgramSearch(task, rest, std::move(*proven)).run();
  if (found) found->seconds = seconds_since(start);
  return found;
}

}  // namespace tutti
