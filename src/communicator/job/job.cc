#include "communicator/job/job.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "base/thread.hpp"
#include "communicator/impl.hpp"
#include "communicator/job/clock_follower.hpp"
#include "communicator/shrink_agreement.hpp"
#include "control/control.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kMoves = 0x6d6f766573;  // a topic that is no communicator's
// Longer than a rank takes to give up, with the default of shrink(); those who chose longer ones have left by then.
constexpr double kAnswerSeconds = 60;
constexpr std::size_t kKeptAgreements = 64;
constexpr std::size_t kGone = 1024;  // communicators that peers may still ask about

/// Set while the transport's thread runs a handler of a job, which may hold the last reference to that job.
thread_local bool t_on_transport_thread = false;

/// The jobs of this process. One that exits without destroying its communicators still says goodbye in all of them: its
/// peers are to see a rank that left, not one that died.
class JobList {
 public:
  void add(const std::shared_ptr<Job>& job) {
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [](const auto& each) { return each.expired(); });
    jobs_.push_back(job);
    // After the recorder's, which there is by now: what this has to record comes first.
    if (!std::exchange(leaves_at_exit_, true)) std::atexit([] { of_process<JobList>().leave_all(); });
  }
  std::vector<std::shared_ptr<Job>> living() {
    const std::lock_guard lock(mutex_);
    return living_with_lock();
  }
  void begins_to_leave() {
    const std::lock_guard lock(mutex_);
    ++leaving_;
  }
  void has_left() {
    const std::lock_guard lock(mutex_);
    --leaving_;
    changed_.notify_all();
  }

 private:
  std::vector<std::shared_ptr<Job>> living_with_lock() const {
    std::vector<std::shared_ptr<Job>> living;
    for (const auto& each : jobs_)
      if (auto job = each.lock()) living.push_back(std::move(job));
    return living;
  }

  void leave_all() {
    std::vector<std::shared_ptr<Job>> living;
    {
      std::unique_lock lock(mutex_);
      living = living_with_lock();
      changed_.wait_for(lock, std::chrono::seconds(2), [this] { return leaving_ == 0; });
    }
    for (const auto& job : living) job->leave();
    // Threads of ours may still hold on to them: they are not to be destroyed while the process ends.
    kept_ = std::move(living);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Job>> jobs_;
  std::vector<std::shared_ptr<Job>> kept_;
  int leaving_ = 0;
  bool leaves_at_exit_ = false;
};

}  // namespace

Job::Job() { ClockFollower::is_own(); }

Job::Job(std::unique_ptr<Control> control, std::shared_ptr<Tcp> tcp, std::vector<Endpoint> endpoints, int self,
         std::string secret)
    : self_(self),
      secret_(std::move(secret)),
      tcp_(std::move(tcp)),
      endpoints_(std::move(endpoints)),
      control_(std::move(control)) {}

Job::~Job() {
  if (control_ == nullptr) return;
  of_process<JobList>().begins_to_leave();
  clock_.reset();
  control_->remove_topic(kMoves);
  for (const KeptAgreement& each : kept_) control_->remove_topic(each.agreement->id());
  for (const Gone& each : gone_) control_->remove_topic(each.id);
  control_->unsubscribe(deaths_);
  control_->unsubscribe(leaves_);
  const bool in_handler = control_->on_control_thread() || t_on_transport_thread;
  auto end = [tcp = std::move(tcp_), control = std::move(control_)]() mutable {
    tcp.reset();  // what is queued goes out first
    control->leave();
    control.reset();
    of_process<JobList>().has_left();
  };
  // A handler may hold the last communicator; it cannot wait for the end of its own thread.
  if (!in_handler) {
    end();
    return;
  }
  const auto shared = std::make_shared<decltype(end)>(std::move(end));
  if (auto thread = start_thread("tutti-leave", [shared] { (*shared)(); }); thread) {
    thread->detach();
    return;
  }
  // Nobody can end them: they live as long as the process.
  log::warn("a job that has ended keeps its threads and ports: no thread could be started to close them");
  [[maybe_unused]] const auto* const kept = new (std::nothrow) std::shared_ptr(shared);
  of_process<JobList>().has_left();
}

std::vector<std::shared_ptr<Job>> Job::all() { return of_process<JobList>().living(); }

std::optional<JobOffer> Job::offer() const {
  if (control_ == nullptr || !control_->is_open()) return std::nullopt;
  JobOffer offer{id(), self_, static_cast<std::int32_t>(endpoints_.size()), {}};
  for (const int process : control_->absent()) {
    if (process == self_) return std::nullopt;
    offer.absent.push_back(process);
  }
  // One that is alive, and cannot be reached any more.
  for (int process = 0; tcp_ != nullptr && process < offer.processes; ++process)
    if (control_->alive(process) && tcp_->has_failed(endpoint_of(process).id)) offer.absent.push_back(process);
  if (offer.absent.size() > JobOffer::kMostAbsent) return std::nullopt;
  return offer;
}

void Job::leave() {
  if (control_ != nullptr) control_->leave();
}

void Job::watch() {
  of_process<JobList>().add(shared_from_this());
  if (tcp_ != nullptr) {
    follow_moves();
    clock_ = std::make_unique<ClockFollower>(*control_, self_);
  } else {
    ClockFollower::is_own();  // ranks that all share a host share its clock
  }
  deaths_ = control_->on_death([this](int process, const Death& death) {
    if (tcp_ != nullptr) tcp_->close_peer(endpoint_of(process).id, death.error);
    for (const auto& communicator : everyone()) communicator->process_died(process, death);
  });
  leaves_ = control_->on_leave([this](int process) {
    for (const auto& communicator : everyone()) communicator->process_left(process);
  });
}

// Ports that come back with another address are told to all, and theirs heard of.
void Job::follow_moves() {
  control_->on_message(kMoves, [this](int, std::span<const std::byte> bytes) {
    const auto moved = Endpoint::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (moved) tcp_->update(*moved);
  });
  tcp_->on_move([weak = weak_from_this()](const Endpoint& own) {
    const std::string text = own.to_string();
    t_on_transport_thread = true;
    if (const auto job = weak.lock()) job->control_->broadcast(kMoves, std::as_bytes(std::span(text)));
    t_on_transport_thread = false;
  });
}

void Job::enroll(std::uint64_t id, const std::shared_ptr<CommunicatorImpl>& communicator) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (id_ == 0) id_ = id;
    auto& members = communicators_[id];
    first = members.empty();
    members.push_back(communicator);
  }
  if (control_ == nullptr) return;
  if (first)
    control_->on_message(id, [this, id](int process, std::span<const std::byte> bytes) { hear(id, process, bytes); });
  // What happened before it was enrolled.
  for (const Member& member : communicator->identity().members) {
    if (const auto death = control_->death_of(member.process))
      communicator->process_died(member.process, *death);
    else if (control_->has_left(member.process))
      communicator->process_left(member.process);
  }
}

void Job::dismiss(std::uint64_t id, int rank) {
  {
    const std::lock_guard lock(mutex_);
    auto& members = communicators_[id];
    std::erase_if(members, [](const auto& member) { return member.expired(); });
    if (members.empty()) {
      communicators_.erase(id);
      gone_.push_back({id, rank});
    }
  }
  forget_old();
}

void Job::keep(std::shared_ptr<ShrinkAgreement> agreement) {
  {
    const std::lock_guard lock(mutex_);
    kept_.push_back({std::move(agreement), Deadline::in(kAnswerSeconds)});
  }
  forget_old();
}

// Agreements whose time is over, communicators that are gone for long, and the topics that only they listened to.
void Job::forget_old() {
  std::vector<std::uint64_t> forgotten;
  {
    const std::lock_guard lock(mutex_);
    for (; !kept_.empty() && (kept_.front().until.passed() || kept_.size() > kKeptAgreements); kept_.pop_front())
      forgotten.push_back(kept_.front().agreement->id());
    for (; gone_.size() > kGone; gone_.pop_front()) forgotten.push_back(gone_.front().id);
    std::erase_if(forgotten, [this](std::uint64_t id) {
      return communicators_.contains(id) || is_gone(id) ||
             std::any_of(kept_.begin(), kept_.end(), [&](const KeptAgreement& k) { return k.agreement->id() == id; });
    });
  }
  if (control_ == nullptr) return;
  for (const std::uint64_t id : forgotten) control_->remove_topic(id);
}

bool Job::is_gone(std::uint64_t id) const {
  return std::any_of(gone_.begin(), gone_.end(), [&](const Gone& each) { return each.id == id; });
}

std::vector<std::shared_ptr<ShrinkAgreement>> Job::kept(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ShrinkAgreement>> found;
  for (const KeptAgreement& each : kept_)
    if (each.agreement->id() == id) found.push_back(each.agreement);
  return found;
}

std::vector<std::shared_ptr<CommunicatorImpl>> Job::members(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CommunicatorImpl>> living;
  if (const auto found = communicators_.find(id); found != communicators_.end())
    for (const auto& member : found->second)
      if (auto communicator = member.lock()) living.push_back(std::move(communicator));
  return living;
}

std::vector<std::shared_ptr<CommunicatorImpl>> Job::everyone() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CommunicatorImpl>> living;
  for (const auto& [id, members] : communicators_)
    for (const auto& member : members)
      if (auto communicator = member.lock()) living.push_back(std::move(communicator));
  return living;
}

void Job::deliver(std::uint64_t id, const Message& message) {
  if (message.kind == Message::Kind::agreement)
    for (const auto& agreement : kept(id))
      if (message.to == agreement->rank() && message.number == agreement->number())
        return void(agreement->hear(message));
  for (const auto& communicator : members(id)) communicator->hear(message);
}

void Job::hear(std::uint64_t id, int process, std::span<const std::byte> bytes) {
  const Result<Message> message = Message::decode(bytes);
  if (!message) return log::warn("dropped: {}", message.error().message);
  deliver(id, *message);
  if (message->kind == Message::Kind::question) answer_for_gone(id, process, *message);
}

/// Not before all that it sent has arrived: whoever is told that a rank has left waits for it no longer.
void Job::answer_for_gone(std::uint64_t id, int process, const Message& question) {
  Message answer;
  answer.kind = Message::Kind::left;
  answer.to = question.from;
  {
    const std::lock_guard lock(mutex_);
    const auto gone = std::find_if(gone_.begin(), gone_.end(), [&](const Gone& each) { return each.id == id; });
    if (gone == gone_.end()) return;
    answer.from = gone->rank;
  }
  if (tcp_ != nullptr && !tcp_->has_delivered(endpoint_of(process).id, id)) return;
  send(id, process, answer);
}

void Job::broadcast(std::uint64_t id, std::vector<int> processes, const Message& message) {
  deliver(id, message);
  if (control_ == nullptr) return;
  if (Status sent = control_->broadcast(id, message.encode(), std::move(processes)); !sent)
    log::error("a message to all ranks was not sent: {}", sent.error().message);
}

Status Job::send(std::uint64_t id, int process, const Message& message) {
  if (process == self_) {
    deliver(id, message);
    return {};
  }
  if (control_ == nullptr) return {};
  Status sent = control_->send(process, id, message.encode());
  if (!sent) log::error("a message to process {} was not sent: {}", process, sent.error().message);
  return sent;
}

}  // namespace tutti
