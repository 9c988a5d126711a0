#include "job.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <numeric>
#include <thread>

#include "control/agreement/agreement.hpp"

namespace tutti::simulated {
namespace {

constexpr double kSlack = 2.5;    // seconds beyond a time-out: the peers are asked why, and the memory is fenced
constexpr double kPatience = 12;  // seconds for an operation without a time-out: whoever is awaited comes, or is dead
constexpr double kEntry = 10;     // seconds for those who have met to grow to connect
constexpr double kNews = 1;       // seconds for all to hear of an abort, or of a rank that left
constexpr int kNever = INT_MAX;

/// What a rank contributes to an element.
std::uint64_t value(int step, int rank, std::size_t index) {
  return static_cast<std::uint64_t>(step) * 1000003 + static_cast<std::uint64_t>(rank) * 101 + index;
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return (a ^ b) * 0x9e3779b97f4a7c15ULL + 1; }

void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

SimulatedJob::SimulatedJob(Kernel& kernel, std::uint64_t seed, Counts& counts)
    : kernel_(kernel),
      draw_(~seed),
      counts_(counts),
      network_(kernel, static_cast<int>(draw_.pick(2, 4)), static_cast<int>(draw_.pick(1, 2))),
      harm_(static_cast<Harm>(draw_.chance(0.1) ? 0 : draw_.pick(1, 3))),
      steps_(static_cast<int>(draw_.pick(4, 12))),
      leaves_at_(harm_ == Harm::none && draw_.chance(0.5) ? static_cast<int>(draw_.pick(1, steps_ - 1)) : kNever),
      timeout_(draw_.chance(0.3) ? 0 : 3),
      patience_(timeout_ > 0 ? timeout_ : kPatience) {
  kernel.preemption = draw_.chance(0.5) ? 0.002 : 0.05;
  if (seed % 2 == 0) g_agreement_trees = {.above = 2, .fan_out = 2};  // as among thousands of ranks
}

SimulatedJob::~SimulatedJob() = default;

void SimulatedJob::run() {
  // With one rank a host nothing but what a fault hits can wake a thread that sleeps too long.
  const int count =
      draw_.chance(0.4) ? network_.hosts() : std::max(network_.hosts(), static_cast<int>(draw_.pick(2, 5)));
  ranks_.resize(static_cast<std::size_t>(count));
  leaver_ = static_cast<int>(draw_.pick(0, count - 1));
  replacements_ = harm_ == Harm::deadly ? 1 : 0;
  ++counts_[fmt::format("jobs: {}", harm_ == Harm::none         ? "no fault"
                                    : harm_ == Harm::survivable ? "survivable faults"
                                    : harm_ == Harm::deadly     ? "processes killed"
                                                                : "networks divided")];
  for (int number = 0; number < count; ++number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    const int host = number < network_.hosts() ? number : static_cast<int>(draw_.pick(0, network_.hosts() - 1));
    rank.process = &kernel_.start_process(host, "main", [this, number] { be_rank(number); });
  }
  plan_faults();
  const auto all_ended = [this] {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& each) { return each.ended || each.process->dead; });
  };
  const bool ended = kernel_.run(all_ended, kernel_.now() + 300 * kSecond);
  if (!ended && kernel_.failure().empty()) kernel_.fail(fmt::format("the job hangs:\n{}", kernel_.describe_threads()));
  kernel_.run([] { return false; }, kernel_.now() + 5 * kSecond);
  if (kernel_.failure().empty()) check_end();
}

void SimulatedJob::be_rank(int number) {
  Rank& self = ranks_[static_cast<std::size_t>(number)];
  const int size = static_cast<int>(ranks_.size());
  if (number == 0) {
    Result<UniqueId> id = UniqueId::create();
    if (id)
      id_ = *id;
    else
      judge(number, "unique id", id.error());
    self.ended = !id;
  }
  const Rank& first = ranks_.front();
  while (!id_ && !first.ended && !first.process->dead) sleep_seconds(0.0005);
  self.ended = !id_;
  if (self.ended) return;
  Options options;
  options.timeout = timeout_;
  options.join_timeout = 10;
  const Time since = kernel_.now();
  const Time stopped = self.stopped;
  Result<Communicator> communicator = Communicator::create(*id_, number, size, options);
  check_time(number, "create", since, stopped, options.join_timeout);
  if (communicator) {
    ++counts_["created"];
    ++created_;
    train(number, std::move(*communicator), 1, 0);
  } else {
    judge(number, "create", communicator.error());
  }
  self.ended = true;
}

/// One that was killed comes back as a new process.
void SimulatedJob::join_again(int number, const UniqueId& id, std::uint64_t lineage) {
  Options options;
  options.timeout = timeout_;
  options.join_timeout = 10;
  Result<Communicator> communicator = Communicator::join(id, -1, options);
  if (communicator) {
    ++counts_["joined"];
    train(number, std::move(*communicator), lineage, 0);
  } else {
    judge(number, "join", communicator.error());
  }
  ranks_[static_cast<std::size_t>(number)].ended = true;
}

// `lineage` names the communicator among all of the job, the same on all its ranks; 1: the first.
void SimulatedJob::train(int number, Communicator communicator, std::uint64_t lineage, int at) {
  std::optional<Communicator> current(std::move(communicator));
  bool agreed = lineage == 1;
  int losses = 0;
  while (true) {
    Status done;
    if (!agreed) {  // after a loss ranks may be at different steps, and newcomers know nothing
      std::uint64_t most = static_cast<std::uint64_t>(at);
      const Time since = kernel_.now();
      const Time stopped = ranks_[static_cast<std::size_t>(number)].stopped;
      done = current->all_reduce(&most, &most, 1, DataType::uint64, Operator::max);
      check_time(number, "all_reduce", since, stopped, patience_);
      at = static_cast<int>(most);
      agreed = done.has_value();
    }
    if (done && at >= steps_) break;
    if (done && at >= leaves_at_ && number == leaver_) {
      if (timeout_ == 0) return;
      sleep_seconds(2 * (timeout_ + shrink_seconds_) + kSlack);  // it lives, and comes when the others have gone on
    }
    if (done) done = step(number, *current, at);
    if (done) {
      ++at;
      continue;
    }
    judge(number, "step", done.error());
    if (leaves_at_ != kNever) {
      if (timeout_ > 0) leave_out(number, *current);
      return;
    }
    if (++losses > 4) return;
    std::optional<Communicator> rest = recover(number, *current, lineage);
    if (rest && lineage % 2 == 0) {
      expect_abort(number, *rest);
      rest = recover(number, *rest, lineage);
    }
    if (!rest) return;
    current = std::move(rest);
    agreed = false;
    // All ranks must do the same: the first decides.
    if (harm_ == Harm::deadly && grows_.try_emplace(lineage, replacements_ > 0).first->second) {
      const std::uint64_t larger = mixed(lineage, 77);
      std::optional<Communicator> grown = grow(number, *current, larger);
      if (grown) {
        current = std::move(grown);
        lineage = larger;
      }
    }
  }
  ++counts_["trained to the end"];
  // Who leaves relays for nobody.
  ranks_[static_cast<std::size_t>(number)].trained = true;
  const auto trains = [](const Rank& each) { return !each.trained && !each.ended && !each.process->dead; };
  const Time latest = kernel_.now() + 5 * kSecond;
  while (harm_ != Harm::none && kernel_.now() < latest && std::any_of(ranks_.begin(), ranks_.end(), trains))
    sleep_seconds(0.05);
}

Status SimulatedJob::step(int number, Communicator& communicator, int at) {
  Rank& self = ranks_[static_cast<std::size_t>(number)];
  // All ranks draw the same from the step.
  Random draw(static_cast<std::uint64_t>(at) * 7919 + static_cast<std::uint64_t>(communicator.size()));
  const bool misses_one = at >= leaves_at_;
  const int kind = misses_one ? 1 : static_cast<int>(draw() % 8);
  const std::size_t count = std::size_t{1} << draw() % 13;
  const double pauses[] = {0, 0, 0.001, 0.02, 0.2, 0.8};
  sleep_seconds(pauses[draw() % 6]);
  const int rank = communicator.rank();
  const int size = communicator.size();
  std::vector<std::uint64_t> mine(count);
  for (std::size_t i = 0; i < count; ++i) mine[i] = value(at, rank, i);
  const Time since = kernel_.now();
  const Time stopped = self.stopped;
  Status done;
  std::vector<std::uint64_t> got(count * static_cast<std::size_t>(size));
  std::vector<std::uint64_t> expected(got.size());
  const char* call = "all_reduce";
  switch (kind) {
    case 0:
    case 1:
    case 2: {
      got.resize(count);
      expected.resize(count);
      for (std::size_t i = 0; i < count; ++i)
        for (int each = 0; each < size; ++each) expected[i] += value(at, each, i);
      if (kind == 0) {
        done = communicator.all_reduce(mine.data(), got.data(), count, DataType::uint64, Operator::sum);
        break;
      }
      call = kind == 1 ? "all_reduce_async, tested" : "all_reduce_async, waited";
      Result<Work> work =
          communicator.all_reduce_async(mine.data(), got.data(), count, DataType::uint64, Operator::sum);
      if (!work) {
        done = tl::unexpected(work.error());
      } else if (kind == 1) {
        while (!work->test()) {
          sleep_seconds(0.0007);
          check_time(number, call, since, stopped, misses_one ? kNews + timeout_ : patience_);
          if (!kernel_.failure().empty()) sleep_seconds(1e6);
        }
        if (work->error() != nullptr) done = tl::unexpected(*work->error());
      } else {
        done = work->wait();
      }
      break;
    }
    case 3:
      call = "all_gather";
      for (int each = 0; each < size; ++each)
        for (std::size_t i = 0; i < count; ++i)
          expected[static_cast<std::size_t>(each) * count + i] = value(at, each, i);
      done = communicator.all_gather(mine.data(), got.data(), count, DataType::uint64);
      break;
    case 4: {  // to the right, from the left, several at once: none is lost, doubled or out of order
      call = "send and recv";
      const int left = (rank + size - 1) % size;
      got.resize(3 * count);
      expected.resize(3 * count);
      std::vector<std::uint64_t> sent(3 * count);
      for (std::size_t i = 0; i < 3 * count; ++i) {
        sent[i] = value(at, rank, i);
        expected[i] = value(at, left, i);
      }
      Group group;
      for (std::size_t part = 0; part < 3; ++part) {
        (void)communicator.send(&sent[part * count], count, DataType::uint64, (rank + 1) % size);
        (void)communicator.recv(&got[part * count], count, DataType::uint64, left);
      }
      done = group.end();
      break;
    }
    case 5:
      call = "barrier";
      expected = got;
      done = communicator.barrier();
      break;
    case 6:
      call = "broadcast";
      got.resize(count);
      expected.resize(count);
      for (std::size_t i = 0; i < count; ++i) expected[i] = value(at, at % size, i);
      done = communicator.broadcast(mine.data(), got.data(), count, DataType::uint64, at % size);
      break;
    default:
      call = "split";
      expected = got;
      done = split_and_use(number, communicator, at);
  }
  check_time(number, call, since, stopped, kind == 7 ? 5 * patience_ : misses_one ? kNews + timeout_ : patience_);
  if (done && misses_one) kernel_.fail("an all_reduce ended well without a rank that had left or came too late");
  if (done && got != expected) kernel_.fail(fmt::format("rank {} of {}: {} of step {} is wrong", rank, size, call, at));
  ++counts_[fmt::format("{}: {}", call, done ? "done" : "failed")];
  return done;
}

/// Two halves, each of which reduces. Then one rank may abort its half, and the others of it must hear that.
Status SimulatedJob::split_and_use(int number, Communicator& communicator, int at) {
  const int rank = communicator.rank();
  Result<std::unique_ptr<Communicator>> half = communicator.split(rank % 2, rank);
  if (!half) {
    // One that had no memory for it: then nobody has a half, and the whole goes on.
    if (half.error().operation != "split" || !memory_refused_) return tl::unexpected(half.error());
    ++counts_["split: refused to all"];
    return communicator.barrier();
  }
  const int aborting = at % 3;  // 2: nobody is
  const bool is_aborted = rank % 2 == aborting;
  std::uint64_t sum = 1;
  const Status reduced = (*half)->all_reduce(&sum, &sum, 1, DataType::uint64, Operator::sum);
  const bool was_aborted = is_aborted && !reduced && reduced.error().code == ErrorCode::aborted;
  if (!reduced && !was_aborted) return reduced;
  if (reduced && sum != static_cast<std::uint64_t>((*half)->size())) kernel_.fail("the sum of one half is wrong");
  if (is_aborted) {
    if (rank == aborting) (*half)->abort("to see what happens");
    const Time since = kernel_.now();
    const Time stopped = ranks_[static_cast<std::size_t>(number)].stopped;
    const Status broken = (*half)->barrier();
    if (broken && (*half)->size() > 1) kernel_.fail("a barrier ended well after an abort");
    if (harm_ == Harm::none) check_time(number, "a barrier after an abort", since, stopped, kNews - kSlack);
  }
  return communicator.barrier();
}

/// The first rank aborts; the others must hear of it, though they may not have the communicator yet.
void SimulatedJob::expect_abort(int number, Communicator& fresh) {
  if (fresh.rank() == 0) fresh.abort("to see who hears of it");
  const Time since = kernel_.now();
  const Time stopped = ranks_[static_cast<std::size_t>(number)].stopped;
  if (fresh.barrier()) kernel_.fail("a barrier ended well after an abort");
  check_time(number, "a barrier after an abort", since, stopped, only_kills_ ? kNews - kSlack : patience_);
  ++counts_["aborted after shrinking"];
}

/// One came too late: the others go on without it if they are a majority, and it is told so.
void SimulatedJob::leave_out(int number, Communicator& whole) {
  const bool is_late = number == leaver_;
  const int others = whole.size() - 1;
  const bool go_on = 2 * others > whole.size();
  ShrinkOptions options;
  options.seconds = shrink_seconds_;
  const Time since = kernel_.now();
  Result<Communicator> rest = whole.shrink(options);
  if (is_late && go_on)
    check_time(number, "the shrink of a latecomer", since, 0, kNews - kSlack);
  else
    check_time(number, "shrink without a latecomer", since, 0, 2 * options.seconds);
  const bool is_free = is_late && !go_on;  // the other one has given up, and ended in order: either is right
  if (!is_free && rest.has_value() != (go_on && !is_late))
    return kernel_.fail(fmt::format("process {}, {}late, of {}: shrink {}", number, is_late ? "" : "not ", others + 1,
                                    rest ? "went on" : rest.error().to_string()));
  ++counts_[fmt::format("latecomers left out: {}", rest ? "went on" : is_late ? "told" : "no majority")];
  if (!rest || is_late) return;
  std::uint64_t sum = 1;
  const Status reduced = rest->all_reduce(&sum, &sum, 1, DataType::uint64, Operator::sum);
  if (!reduced || sum != static_cast<std::uint64_t>(others)) kernel_.fail("those who went on without a latecomer fail");
  // Whoever has ended tells it nothing.
  const Time latest = kernel_.now() + 20 * kSecond;
  while (kernel_.now() < latest && !ranks_[static_cast<std::size_t>(leaver_)].ended) sleep_seconds(0.05);
}

std::optional<Communicator> SimulatedJob::recover(int number, Communicator& broken, std::uint64_t& lineage) {
  Rank& self = ranks_[static_cast<std::size_t>(number)];
  ShrinkOptions options;
  options.seconds = shrink_seconds_;
  disturb_recovery(lineage);
  const Time since = kernel_.now();
  const Time stopped = self.stopped;
  Result<Communicator> rest = broken.shrink(options);
  check_time(number, "shrink", since, stopped, 4 * options.seconds);
  if (!rest) {
    judge(number, "shrink", rest.error());
    return std::nullopt;
  }
  ++counts_["shrunk"];
  // All who go on must go on as the same set.
  Decision& decision = decisions_[lineage];
  if (decision.size == 0) decision.size = rest->size();
  const auto [at, is_new] = decision.ranks.try_emplace(rest->rank(), number);
  if (decision.size != rest->size() || !is_new)
    kernel_.fail(fmt::format("survivors of one communicator disagree: process {} is rank {} of {}, another said {}{}",
                             number, rest->rank(), rest->size(), decision.size,
                             is_new ? "" : fmt::format(", and process {} has that rank", at->second)));
  lineage = mixed(lineage, static_cast<std::uint64_t>(rest->size()));
  return std::move(*rest);
}

/// A new process takes the place of one that was killed.
std::optional<Communicator> SimulatedJob::grow(int number, Communicator& small, std::uint64_t lineage) {
  Rank& self = ranks_[static_cast<std::size_t>(number)];
  GrowOptions options;
  options.newcomers = 1;
  options.seconds = 6;
  options.invite = [this, lineage](const UniqueId& id) {
    const auto dead = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& each) { return each.process->dead; });
    if (dead == ranks_.end() || replacements_ == 0) return;
    --replacements_;
    const int host = dead->process->host;
    const int newcomer = static_cast<int>(ranks_.size());
    kernel_.after(kMillisecond, [this, id, host, newcomer, lineage] {
      ranks_.emplace_back();
      ranks_.back().process =
          &kernel_.start_process(host, "main", [this, id, newcomer, lineage] { join_again(newcomer, id, lineage); });
    });
  };
  const Time since = kernel_.now();
  const Time stopped = self.stopped;
  Result<Communicator> grown = small.grow(options);
  check_time(number, "grow", since, stopped, options.seconds + kEntry + patience_);
  if (!grown) {
    judge(number, "grow", grown.error());
    return std::nullopt;
  }
  ++counts_["grown"];
  return std::move(*grown);
}

// A process that stood still has that time on top.
void SimulatedJob::check_time(int number, const char* call, Time since, Time stopped_before, double seconds) {
  // Somebody else may have stood still, too, and been waited for; that is no excuse.
  const Time stopped = ranks_[static_cast<std::size_t>(number)].stopped - stopped_before;
  const double took = static_cast<double>(kernel_.now() - since - stopped) * 1e-9;
  if (took > seconds + kSlack)
    kernel_.fail(fmt::format("process {}: {} took {:.3f} s, and may take {:.3f}", number, call, took, seconds));
}

/// An error that should not be is a violation.
void SimulatedJob::judge(int number, const char* call, const Error& error) {
  ++counts_[fmt::format("errors: {}", name_of(error.code))];
  kernel_.trace(fmt::format("process {}: {}: {}", number, call, error.to_string()));
  const bool recovers = std::string_view(call) != "shrink";
  const bool creates = std::string_view(call) == "create" || created_ < static_cast<int>(ranks_.size());
  const bool may_fail = (creation_may_fail_ && creates) || leaves_at_ != kNever || harm_ == Harm::splitting ||
                        (harm_ == Harm::deadly && killed_ > 0 && (recovers || !only_kills_));
  const bool is_bad = !may_fail || error.code == ErrorCode::internal || error.code == ErrorCode::mismatch;
  if (is_bad) kernel_.fail(fmt::format("process {}: {}: {}", number, call, error.to_string()));
}

/// Who has ended in order leaves nothing behind.
void SimulatedJob::check_end() {
  for (std::size_t number = 0; number < ranks_.size(); ++number) {
    const Process& process = *ranks_[number].process;
    // One that could start no thread to close a job keeps what it has, and says so.
    if (process.dead || process.lacked_threads) continue;
    // A store at which not all ranks have come stays until its process exits: listeners, an epoll, eventfds, and
    // connections of those who came. What all processes have in common here counts as of the first.
    const int ranks = static_cast<int>(ranks_.size());
    const int allowed = number == 0 && created_ < ranks ? 5 + ranks : 1;
    if (process.descriptors > allowed)
      return kernel_.fail(fmt::format("process {} has {} descriptors left", number, process.descriptors));
  }
}

}  // namespace tutti::simulated
