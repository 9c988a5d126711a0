// An Agreement that runs over a Control: messages on one topic, deaths and goodbyes from the control plane, time from
// the caller who waits. See agreement.hpp for what is guaranteed.
// run() by one thread, once. Keep it until all survivors are known to have returned (say, until the first operation
// among them is done): it answers those whose leader died on the way. Must be destroyed before the Control.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "control/agreement.hpp"
#include "control/control.hpp"

namespace tutti {

class SurvivorAgreement {
 public:
  /// `members`: who takes part, as indices into the world, in the same order everywhere; `self`: our place among them.
  /// `topic`: the same everywhere, and used for this agreement only.
  SurvivorAgreement(Control& control, std::vector<int> members, int self, std::uint64_t topic,
                    AgreementTiming timing = {});
  ~SurvivorAgreement();
  SurvivorAgreement(const SurvivorAgreement&) = delete;
  SurvivorAgreement& operator=(const SurvivorAgreement&) = delete;

  /// Blocks until there is a result: survivors are places in `members`. Blobs of all together: at most kMessageLimit,
  /// less 5 bytes for each.
  Result<Survivors> run(Blob blob);

 private:
  void receive(int process, std::span<const std::byte> bytes);
  void lose(int process);
  int place_of(int process) const;
  void send_outgoing();

  Control& control_;
  const std::vector<int> members_;
  const std::uint64_t topic_;
  Control::Subscription deaths_ = 0;
  Control::Subscription leaves_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  Agreement agreement_;  // under mutex_
};

}  // namespace tutti
