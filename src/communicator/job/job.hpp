// The processes that joined together, as one of them sees them: what all communicators among them share. In a job of
// threads there is only this process; otherwise control carries messages and news of death, and tcp the data between
// hosts. Thread-safe. Lives until its last communicator is gone.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "communicator/job/common_job.hpp"
#include "communicator/job/message.hpp"
#include "net/endpoint.hpp"

namespace tutti {

class ClockFollower;
class CommunicatorImpl;
class Control;
class ShrinkAgreement;
class Tcp;

class Job : public std::enable_shared_from_this<Job> {
 public:
  Job();  // this process alone
  /// `self`: index of this process among those that joined.
  Job(std::unique_ptr<Control> control, std::shared_ptr<Tcp> tcp, std::vector<Endpoint> endpoints, int self,
      std::string secret);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The jobs of this process that processes besides it have joined.
  static std::vector<std::shared_ptr<Job>> all();

  int self() const { return self_; }
  /// The same in all its processes: of the communicator they joined in.
  std::uint64_t id() const { return id_; }
  /// What only the processes of this job know; empty among threads, and where none was given.
  const std::string& secret() const { return secret_; }
  Tcp* tcp() const { return tcp_.get(); }
  const Endpoint& endpoint_of(int process) const { return endpoints_[static_cast<std::size_t>(process)]; }

  /// For another communicator of the same processes; none if this one cannot be made in this job any more.
  std::optional<JobOffer> offer() const;

  /// Says goodbye to the other processes.
  void leave();

  /// From now on communicators hear of processes that die or leave.
  void watch();

  /// From now on `communicator` gets messages sent to its id.
  void enroll(std::uint64_t id, const std::shared_ptr<CommunicatorImpl>& communicator);
  /// It is gone: from now on peers that ask `rank` of it what it does are told so.
  void dismiss(std::uint64_t id, int rank);

  /// To every rank of the communicator, which are in `processes`, the sender's own included.
  void broadcast(std::uint64_t id, std::vector<int> processes, const Message& message);
  /// To the ranks of the communicator in one process. invalid_argument: the message is too long, and is not sent.
  Status send(std::uint64_t id, int process, const Message& message);

  /// Has an agreement that is over answer ranks that are not done with it, for kAnswerSeconds: its communicator may
  /// be gone by then.
  void keep(std::shared_ptr<ShrinkAgreement> agreement);

 private:
  void follow_moves();
  void deliver(std::uint64_t id, const Message& message);
  void hear(std::uint64_t id, int process, std::span<const std::byte> bytes);
  void answer_for_gone(std::uint64_t id, int process, const Message& question);
  bool is_gone(std::uint64_t id) const;  // with the mutex held
  std::vector<std::shared_ptr<CommunicatorImpl>> members(std::uint64_t id);
  std::vector<std::shared_ptr<CommunicatorImpl>> everyone();
  std::vector<std::shared_ptr<ShrinkAgreement>> kept(std::uint64_t id);
  void forget_old();

  struct KeptAgreement {
    std::shared_ptr<ShrinkAgreement> agreement;
    Deadline until;
  };
  struct Gone {  // a communicator
    std::uint64_t id;
    int rank;
  };

  int self_ = 0;
  std::atomic<std::uint64_t> id_{0};
  std::string secret_;
  std::shared_ptr<Tcp> tcp_;
  std::vector<Endpoint> endpoints_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<ClockFollower> clock_;
  std::uint64_t deaths_ = 0;  // subscriptions
  std::uint64_t leaves_ = 0;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::vector<std::weak_ptr<CommunicatorImpl>>> communicators_;
  std::deque<KeptAgreement> kept_;  // oldest first
  std::deque<Gone> gone_;           // likewise
};

}  // namespace tutti
