#include "steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "values.hpp"

namespace tutti::labs {

namespace {

constexpr std::size_t kMostElements = 96 * 1024;  // 384 KB: 0.2 s on a rail of 20 Mb/s
constexpr int kBuffers = 4;
constexpr std::size_t kRegions = 6;
constexpr auto kType = DataType::float32;

/// Drawn between operations, in milliseconds.
constexpr std::array kPauses = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 20, 20, 20, 0, 200};

std::string place(const Communicator& communicator) {
  return "rank " + std::to_string(communicator.rank()) + " of " + std::to_string(communicator.size());
}

}  // namespace

Memory::Memory(std::size_t count, Journal& journal, Deadlines& deadlines)
    : count_(count), journal_(journal), deadlines_(deadlines) {
  Result<void*> memory = deadlines_.hold("allocate", Limits::kAtOnce, [&] { return allocate(count * sizeof(float)); });
  if (memory) {
    allocated_ = static_cast<float*>(*memory);
    journal_.write("did", "allocate");
    return;
  }
  if (memory.error().code != ErrorCode::system) journal_.give_up("allocate: " + memory.error().to_string());
  journal_.write("refused", "allocate: " + memory.error().to_string());
  own_.resize(count);
}

Memory::~Memory() {
  if (allocated_ == nullptr) return;
  const Status freed = deadlines_.hold("deallocate", Limits::kAtOnce, [&] { return deallocate(allocated_); });
  if (!freed) journal_.give_up("deallocate: " + freed.error().to_string());
  journal_.write("did", "deallocate");
}

Steps::Steps(std::uint64_t seed, Journal& journal, Deadlines& deadlines)
    : seed_(seed), journal_(journal), deadlines_(deadlines), ordinary_(kBuffers) {
  for (auto& buffer : ordinary_) buffer.resize(kMostElements);
  gathered_.resize(kMostElements * 8);
}

Status Steps::split() {
  const auto part = [&](int color, int key) {
    return deadlines_.hold("split", Limits::kSplit, [&] { return world_->split(color, key); });
  };
  auto reversed = part(0, -world_->rank());
  if (!reversed) return tl::unexpected(reversed.error());
  auto half = part(world_->rank() % 2, 0);
  if (!half) return tl::unexpected(half.error());
  reversed_ = std::move(*reversed);
  half_ = std::move(*half);
  journal_.write("did", "split");
  return {};
}

Communicator Steps::end() {
  deadlines_.hold("destruction", 2 * Limits::kDestruction, [&] {
    reversed_.reset();
    half_.reset();
    return true;
  });
  Communicator world = std::move(*world_);
  world_.reset();
  return world;
}

std::uint64_t Steps::draw(std::uint64_t purpose) const { return drawn(step_ ^ (seed_ << 32), purpose); }

/// Small counts as often as large ones.
std::size_t Steps::draw_count(std::uint64_t purpose) const {
  const std::size_t most = kMostElements >> draw(purpose) % 14;
  return most - draw(purpose + 1) % std::max<std::size_t>(most / 3, 1);
}

Communicator& Steps::draw_communicator(std::uint64_t purpose) {
  switch (draw(purpose) % 4) {
    case 0:
      return *reversed_;
    case 1:
      return *half_;
    default:
      return *world_;
  }
}

Status Steps::run(std::uint64_t step) {
  step_ = step;
  compute(static_cast<std::int64_t>(draw(1) % 3000));
  Status done = run_drawn();
  if (!done) abandon();
  sleep_for(std::int64_t{1000000} * kPauses[draw(2) % kPauses.size()]);
  return done;
}

Status Steps::run_drawn() {
  switch (draw(3) % 12) {
    case 0:
      return all_reduce(draw_communicator(4), std::span(ordinary_[0]).first(draw_count(5)), number(0));
    case 1:
    case 2:
      return churn();
    case 3:
      return all_gather(draw_communicator(4), draw_count(5), number(0));
    case 4:
    case 5:
      return ring(draw_communicator(4), draw_count(5), number(0));
    case 6:
    case 7:
      return polled();
    case 8:
      return waited_in_slices();
    case 9:
      return short_lived();
    default:
      return buckets();
  }
}

/// Holds a result against the sum of what ranks begin to end - 1 gave.
void Steps::check(const char* what, std::span<const float> got, int begin, int end, std::uint64_t number) {
  const std::size_t wrong = first_wrong(got, begin, end, number);
  if (wrong == got.size()) return;
  journal_.give_up("step " + std::to_string(step_) + ", " + place(*world_) + ", " + what + " of " +
                   std::to_string(got.size()) + " elements: wrong at element " + std::to_string(wrong));
}

Status Steps::all_reduce(Communicator& communicator, std::span<float> buffer, std::uint64_t number) {
  fill(buffer, communicator.rank(), number);
  Status done = deadlines_.hold("all_reduce", Limits::kOperation, [&] {
    return communicator.all_reduce(buffer.data(), buffer.data(), buffer.size(), kType, Operator::sum);
  });
  if (done) check("all_reduce", buffer, 0, communicator.size(), number);
  return done;
}

Status Steps::all_gather(Communicator& communicator, std::size_t count, std::uint64_t number) {
  const auto own = std::span(ordinary_[0]).first(count);
  fill(own, communicator.rank(), number);
  Status done = deadlines_.hold("all_gather", Limits::kOperation,
                                [&] { return communicator.all_gather(own.data(), gathered_.data(), count, kType); });
  if (!done) return done;
  for (int rank = 0; rank < communicator.size(); ++rank)
    check("all_gather", std::span(gathered_).subspan(static_cast<std::size_t>(rank) * count, count), rank, rank + 1,
          number);
  return {};
}

/// Sends to the right and receives from the left, in a group.
Status Steps::ring(Communicator& communicator, std::size_t count, std::uint64_t number) {
  const int size = communicator.size();
  const int left = (communicator.rank() + size - 1) % size;
  const auto sent = std::span(ordinary_[0]).first(count);
  const auto received = std::span(ordinary_[1]).first(sent.size());
  fill(sent, communicator.rank(), number);
  Status done = deadlines_.hold("send and recv", Limits::kOperation, [&]() -> Status {
    Group group;
    Status first = communicator.send(sent.data(), sent.size(), kType, (communicator.rank() + 1) % size);
    Status second = communicator.recv(received.data(), received.size(), kType, left);
    Status all = group.end();
    if (!first) return first;
    return second ? all : second;
  });
  if (done) check("send and recv", received, left, left + 1, number);
  return done;
}

Status Steps::start(Communicator& communicator, std::span<float> buffer, std::uint64_t number) {
  fill(buffer, communicator.rank(), number);
  Result<Work> work = deadlines_.hold("all_reduce_async", Limits::kAtOnce, [&] {
    return communicator.all_reduce_async(buffer.data(), buffer.data(), buffer.size(), kType, Operator::sum);
  });
  if (!work) return tl::unexpected(work.error());
  pending_.push_back({std::move(*work), buffer, buffer.size(), communicator.size(), number});
  return {};
}

Status Steps::finish(Pending& pending) {
  Status done = deadlines_.hold("wait", Limits::kOperation, [&] { return pending.work.wait(); });
  if (done) check("all_reduce_async", pending.buffer, 0, pending.size, pending.number);
  return done;
}

/// Gradients of a few layers, each reduced while the next is computed.
Status Steps::buckets() {
  const int count = 2 + static_cast<int>(draw(6) % (kBuffers - 1));
  for (int i = 0; i < count; ++i) {
    compute(static_cast<std::int64_t>(draw(20 + static_cast<std::uint64_t>(i)) % 1000));
    const auto buffer =
        std::span(ordinary_[static_cast<std::size_t>(i)]).first(draw_count(30 + 2 * static_cast<std::uint64_t>(i)));
    if (Status started = start(draw_communicator(40 + static_cast<std::uint64_t>(i)), buffer, number(i)); !started)
      return started;
  }
  for (Pending& each : pending_)
    if (Status done = finish(each); !done) return done;
  pending_.clear();
  return {};
}

/// Two operations on two communicators, polled until both are done.
Status Steps::polled() {
  if (Status started = start(*reversed_, std::span(ordinary_[0]).first(draw_count(5)), number(0)); !started)
    return started;
  if (Status started = start(*half_, std::span(ordinary_[1]).first(draw_count(7)), number(1)); !started) return started;
  deadlines_.hold("polled operations", Limits::kOperation, [&] {
    for (Pending& each : pending_)
      while (!deadlines_.hold("test", Limits::kAtOnce, [&] { return each.work.test(); })) compute(200);
    return true;
  });
  for (Pending& each : pending_) {
    if (const Error* error = each.work.error(); error != nullptr) return tl::unexpected(*error);
    check("polled all_reduce", each.buffer, 0, each.size, each.number);
  }
  pending_.clear();
  return {};
}

/// Waits with a deadline that mostly passes first.
Status Steps::waited_in_slices() {
  constexpr double kSlice = 0.002;
  if (Status started = start(draw_communicator(4), std::span(ordinary_[0]).first(draw_count(5)), number(0)); !started)
    return started;
  Pending& pending = pending_.front();
  const bool ended = deadlines_.hold("operation waited for in slices", Limits::kOperation, [&] {
    while (!pending.work.test()) {
      const Status done = deadlines_.hold("wait of 2 ms", kSlice, [&] { return pending.work.wait(kSlice); });
      if (!done && done.error().code != ErrorCode::timed_out) break;
    }
    return pending.work.test();
  });
  if (!ended) journal_.give_up("wait(0.002) failed by something else than its deadline before the operation ended");
  if (const Error* error = pending.work.error(); error != nullptr) return tl::unexpected(*error);
  check("all_reduce waited for in slices", pending.buffer, 0, pending.size, pending.number);
  pending_.clear();
  return {};
}

/// Frees a region or two, allocates others, and reduces in one of them.
Status Steps::churn() {
  const std::size_t gone = std::min<std::size_t>(draw(8) % 3, regions_.size());
  for (std::size_t i = 0; i < gone || regions_.size() >= kRegions; ++i)
    regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(draw(50 + i) % regions_.size()));
  regions_.push_back(std::make_unique<Memory>(draw_count(5), journal_, deadlines_));
  return all_reduce(draw_communicator(4), regions_.back()->span(), number(0));
}

Status Steps::tidy() {
  regions_.clear();
  Status done = barrier();
  if (done) regions_.push_back(std::make_unique<Memory>(kMostElements, journal_, deadlines_));
  for (Communicator* each : {&*world_, reversed_.get(), half_.get()}) {
    if (done) done = all_reduce(*each, ordinary_[0], number(0));
    if (done) done = all_gather(*each, kMostElements, number(1));
    if (done) done = ring(*each, kMostElements, number(2));
    if (done) done = all_reduce(*each, regions_.back()->span(), number(3));
  }
  if (done) done = barrier();
  if (!done) abandon();
  return done;
}

Status Steps::barrier() {
  return deadlines_.hold("barrier", Limits::kOperation, [&] { return world_->barrier(); });
}

/// A communicator that lives for this step only; every other one is aborted by one of its ranks.
Status Steps::short_lived() {
  const int colors = draw(9) % 2 == 0 ? 1 : 2;
  auto part = deadlines_.hold("split", Limits::kSplit, [&] { return world_->split(world_->rank() % colors); });
  if (!part && part.error().code == ErrorCode::system) {
    journal_.write("refused", "split: " + part.error().to_string());
    return {};  // on all ranks alike
  }
  if (!part) return tl::unexpected(part.error());
  journal_.write("did", "split");
  Status done = all_reduce(**part, std::span(ordinary_[0]).first(draw_count(5)), number(0));
  const bool aborts = draw(10) % 2 == 0;
  // An abort ends what is under way on other ranks.
  if (done && aborts) done = barrier();
  if (done && aborts) done = abort_one(**part);
  deadlines_.hold("destruction", Limits::kDestruction, [&] {
    part->reset();
    return true;
  });
  return done;
}

/// One rank aborts, the others call; all must hear of it.
Status Steps::abort_one(Communicator& part) {
  if (part.size() < 2) return {};
  const int who = static_cast<int>(draw(11) % static_cast<std::uint64_t>(part.size()));
  if (part.rank() == who) {
    deadlines_.hold("abort", Limits::kAtOnce, [&] {
      part.abort("this step aborts it");
      return true;
    });
    journal_.write("did", "abort");
  }
  const auto buffer = std::span(ordinary_[1]).first(draw_count(12));
  const Status done = deadlines_.hold("all_reduce that is aborted", Limits::kOperation, [&] {
    return part.all_reduce(buffer.data(), buffer.data(), buffer.size(), kType, Operator::sum);
  });
  if (done) journal_.give_up("all_reduce ended well though rank " + std::to_string(who) + " aborted it");
  if (done.error().code == ErrorCode::aborted) return {};
  return done;
}

/// Keeps a core busy, as a model would.
void Steps::compute(std::int64_t microseconds) {
  const std::int64_t end = now() + microseconds * 1000;
  float value = sink_ + 1;
  while (now() < end)
    for (int i = 0; i < 200; ++i) value = std::sqrt(value * 1.5F + 1);
  sink_ = value;
}

/// Ends what is under way, so that nothing uses the buffers any more.
void Steps::abandon() {
  deadlines_.hold("abort", Limits::kAtOnce, [&] {
    reversed_->abort("a step failed");
    half_->abort("a step failed");
    return true;
  });
  if (!pending_.empty()) world_->abort("a step failed");
  for (Pending& each : pending_) {
    const Status ended = deadlines_.hold("wait for what failed", Limits::kOperation, [&] { return each.work.wait(); });
    static_cast<void>(ended);  // well or not
  }
  pending_.clear();
}

}  // namespace tutti::labs
