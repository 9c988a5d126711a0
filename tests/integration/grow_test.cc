// Ranks are lost, others take their place, and the communicator has its old size again.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "bootstrap/unique_id.hpp"
#include "rank_processes.hpp"

namespace tutti::integration {
namespace {

// Slow under sanitizers and beside other work; what is promised is measured, this only bounds the test.
constexpr double kPatience = 20;
// A second is promised. Beside busy loops the scheduler has kept a thread waiting for as long.
constexpr double kDeathKnown = 2.0;
constexpr double kGoesOn = 3.0;

struct Way {
  const char* name;
  int ranks_per_host;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

/// Processes by number: the ranks that begin, then those that join later.
class Grow : public testing::TestWithParam<Way> {
 protected:
  static constexpr int kNewcomers = 4;

  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  void start(int ranks) {
    ranks_ = ranks;
    job_ = std::make_unique<RankProcesses>(ranks + kNewcomers, Variables{{"TUTTI_LOG", "error"}});
    for (int rank = 0; rank < ranks; ++rank) {
      job_->start(rank, {GROW_RANK}, variables(rank));
      living_.push_back(rank);
    }
    all_say("ready");
  }

  Variables variables(int rank) const {
    return {{"TUTTI_SIZE", std::to_string(ranks_)},
            {"TUTTI_RANK", std::to_string(rank)},
            {"TUTTI_HOST_ID", fmt::format("host{}", rank / GetParam().ranks_per_host)}};
  }

  /// A process that shall become this rank, and its number among the processes. Not waited for.
  int start_newcomer(const std::string& join, int rank) {
    const int process = ranks_ + newcomers_++;
    job_->start(process, {GROW_RANK, "--join", join}, variables(rank));
    return process;
  }

  std::string hear(int process, const std::string& word) {
    const auto line = job_->hear(process, word, in(kPatience));
    EXPECT_TRUE(line) << "no '" << word << "': process " << process << " said: " << job_->said(process);
    return line.value_or("");
  }
  void tell_all(const std::string& line) {
    for (const int process : living_) job_->tell(process, line);
  }
  void all_say(const std::string& word) {
    for (const int process : living_) hear(process, word);
  }
  void all_are_right() {
    tell_all("check");
    all_say("right");
  }
  std::string all_said() {
    std::string text;
    for (const int process : living_) text += fmt::format("\nprocess {} said: {}", process, job_->said(process));
    return text;
  }
  std::string invited(int process) { return hear(process, "id").substr(3); }

  /// The processes are the ranks in this order; those that lived before say `word`, the others that they joined.
  void all_are(const std::string& word, const std::vector<int>& processes) {
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      const bool old = std::find(living_.begin(), living_.end(), processes[rank]) != living_.end();
      const std::string line = hear(processes[rank], old ? word : "joined");
      const std::string place = fmt::format("{} {} {} ", old ? word : "joined", processes.size(), rank);
      EXPECT_EQ(line.substr(0, place.size()), place) << "process " << processes[rank];
    }
    living_ = processes;
  }

  /// One is killed in the middle of a collective; the others are told, and go on without it.
  void lose(std::size_t rank) {
    tell_all("loop");
    all_say("ready");
    const int victim = living_[rank];
    const auto killed = Clock::now();
    job_->kill(victim);
    living_.erase(living_.begin() + static_cast<std::ptrdiff_t>(rank));
    for (const int process : living_) {
      EXPECT_EQ(hear(process, "failed").rfind(fmt::format("failed rank died {} ", rank), 0), 0U) << job_->said(process);
      EXPECT_LT(seconds_since(killed), kDeathKnown) << "process " << process;
    }
    tell_all("shrink");
    all_are("shrunk", living_);
    EXPECT_LT(seconds_since(killed), kGoesOn) << "without rank " << rank << all_said();
  }

  /// The place of a rank that was lost is taken by a new process.
  void replace(std::size_t rank) {
    tell_all("grow 1 0 10");
    const int newcomer = start_newcomer(invited(living_[0]), static_cast<int>(rank));
    std::vector<int> processes = living_;
    processes.insert(processes.begin() + static_cast<std::ptrdiff_t>(rank), newcomer);
    all_are("grown", processes);
    tell_all("drop");
    all_are_right();
  }

  /// Two newcomers, of which nobody knows who comes first, are the last ranks.
  void join_in_any_order(std::vector<int> processes, int first, int second) {
    for (const int process : processes) hear(process, "grown");
    const std::string place = hear(first, "joined");
    hear(second, "joined");
    if (place.rfind(fmt::format("joined {} {} ", processes.size() + 2, processes.size()), 0) != 0)
      std::swap(first, second);
    processes.insert(processes.end(), {first, second});
    living_ = processes;
  }

  int ranks_ = 0;
  int newcomers_ = 0;
  std::vector<int> living_;  // processes in the order of their ranks
  std::unique_ptr<RankProcesses> job_;
};

INSTANTIATE_TEST_SUITE_P(Over, Grow, testing::Values(Way{"SharedMemory", 64}, Way{"Tcp", 1}, Way{"Both", 2}),
                         [](const auto& each) { return each.param.name; });

TEST_P(Grow, ARankThatWasKilledIsReplacedAndItsReplacementToo) {
  start(4);
  lose(2);
  replace(2);
  lose(0);
  replace(0);
  lose(2);  // the first replacement
  all_are_right();
}

TEST_P(Grow, AHealthyCommunicatorOfTwoTakesInTwo) {
  start(2);
  tell_all("grow 2 0 10");
  const std::string id = invited(0);
  const int first = start_newcomer(id, 2);
  const int second = start_newcomer(id, 3);
  join_in_any_order({0, 1}, first, second);
  all_are_right();
  lose(3);
  replace(3);
}

TEST_P(Grow, NewcomersGetTheNumbersTheyWishForWhereTheLauncherSays) {
  start(4);
  lose(2);
  lose(1);
  tell_all("grow 2 0 10 environment");
  const int as_two = start_newcomer("environment", 2);
  const int as_one = start_newcomer("environment", 1);
  all_are("grown", {0, as_one, as_two, 3});
  all_are_right();
}

TEST_P(Grow, NewcomersComeAfterTheRanksWhereNoNumberIsToBeFilled) {
  start(3);
  lose(1);
  tell_all("grow 1 0 10 after");
  const int newcomer = start_newcomer(invited(0), 1);
  all_are("grown", {0, 2, newcomer});
  all_are_right();
}

TEST_P(Grow, NewcomersMayWaitBeforeTheRanksAreReadyForThem) {
  start(3);
  lose(1);
  job_->tell(0, "open");
  const int newcomer = start_newcomer(invited(0), 1);
  job_->tell(0, "waiting 1");
  hear(0, "ready");
  all_are_right();  // they have gone on in the meantime
  tell_all("grow 1 0 10 id");
  all_are("grown", {0, newcomer, 2});
  all_are_right();
}

TEST_P(Grow, ANewcomerThatNeverComesIsMissedAtTheDeadlineAndNothingElseFails) {
  start(3);
  tell_all("grow 2 0 0.5");
  const auto started = Clock::now();
  const std::string id = invited(0);
  const int alone = start_newcomer(id, 3);
  for (const int process : {0, 1, 2, alone}) {
    const std::string line = hear(process, "failed timed out");
    EXPECT_NE(line.find("1 of 2 newcomers has not joined within 0.5 s"), std::string::npos) << line;
  }
  EXPECT_LT(seconds_since(started), 0.5 + kDeathKnown);
  all_are_right();
  tell_all("grow 1 0 10");
  const int newcomer = start_newcomer(invited(0), 3);
  all_are("grown", {0, 1, 2, newcomer});
  all_are_right();
}

TEST_P(Grow, AsManyAsSufficeAreTakenInAtTheDeadline) {
  start(2);
  tell_all("grow 3 1 1");
  const int newcomer = start_newcomer(invited(0), 2);
  all_are("grown", {0, 1, newcomer});
  all_are_right();
}

TEST_P(Grow, ANewcomerThatDiesWhileItWaitsLeavesItsPlaceToAnother) {
  start(2);
  tell_all("grow 2 0 10");
  const std::string id = invited(0);
  const int unlucky = start_newcomer(id, 2);
  ::usleep(50000);  // wherever it has got to
  job_->kill(unlucky);
  ASSERT_TRUE(job_->wait(unlucky, in(5))) << "it is to be gone before the next one comes";
  const int first = start_newcomer(id, 2);
  const int second = start_newcomer(id, 3);
  join_in_any_order({0, 1}, first, second);
  all_are_right();
}

TEST_P(Grow, ARankThatDiesWhileNewcomersAreWaitedForIsNamed) {
  start(4);
  for (const int victim : {3, 0}) {
    tell_all("grow 1 0 10");
    invited(living_[0]);
    const auto killed = Clock::now();
    job_->kill(victim);
    const auto rank = std::find(living_.begin(), living_.end(), victim) - living_.begin();
    living_.erase(living_.begin() + rank);
    for (const int process : living_) {
      EXPECT_EQ(hear(process, "failed").rfind(fmt::format("failed rank died {} ", rank), 0), 0U) << job_->said(process);
      EXPECT_LT(seconds_since(killed), kDeathKnown) << "process " << process;
    }
    tell_all("shrink");
    all_are("shrunk", living_);
  }
  replace(0);
  replace(3);
}

TEST_P(Grow, KilledAtAnyMomentOfItANewcomerDoesNotTakeTheOthersAlong) {
  start(3);
  for (int delay = 4; delay < 16; delay += 2) {
    SCOPED_TRACE(fmt::format("dies {} ms after it was started", delay));
    tell_all("grow 1 0 0.3");
    newcomers_ = 0;
    const int newcomer = start_newcomer(invited(0), 3);
    ::usleep(static_cast<useconds_t>(delay) * 1000);
    job_->kill(newcomer);
    job_->wait(newcomer, in(kPatience));
    for (const int process : living_) {
      std::string line;
      while (line.rfind("grown", 0) != 0 && line.rfind("failed", 0) != 0) {
        line = hear(process, "");
        ASSERT_FALSE(line.empty());
      }
      if (line.rfind("grown", 0) == 0) job_->tell(process, "back");
    }
    all_are_right();
  }
}

/// A connection to a port of this host, which says something and stays open.
Fd pester(int port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return Fd();
  const std::string greeting = "let me in\n";
  [[maybe_unused]] const ssize_t sent = ::send(socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
  return socket;
}

TEST_P(Grow, AStrangerWithoutTheSecretIsNotAdmitted) {
  start(2);
  tell_all("grow 1 0 15");
  const std::string id = invited(0);
  IdParts parts = *decode_id(UniqueId::from_string(id)->bytes());
  parts.secret[0] ^= 1;
  const std::string forged = UniqueId::from_bytes(encode_id(parts))->to_string();
  const int stranger = start_newcomer(forged, 2);
  std::vector<Fd> others;
  for (const int port : listening_ports(job_->pid(0))) others.push_back(pester(port));
  const std::string line = hear(stranger, "failed refused");
  EXPECT_NE(line.find("secret"), std::string::npos) << line;
  const int newcomer = start_newcomer(id, 2);
  all_are("grown", {0, 1, newcomer});
  const int late = start_newcomer(id, 3);
  all_are_right();
  EXPECT_FALSE(job_->hear(late, "joined", in(0.2))) << "the id has served";
}

TEST_P(Grow, NothingOfItIsLeftOnceItIsDropped) {
  start(2);
  std::vector<std::string> resources;
  for (int round = 0; round < 3; ++round) {
    tell_all("grow 1 0 0.1");  // nobody comes
    for (const int process : living_) hear(process, "failed timed out");
    tell_all("grow 1 0 10");
    const int newcomer = start_newcomer(invited(0), 2);
    all_are("grown", {0, 1, newcomer});
    all_are_right();
    living_ = {0, 1};
    tell_all("back");
    tell_all("resources");
    for (const int process : living_) resources.push_back(hear(process, "resources"));
    job_->kill(newcomer);
    all_are_right();
  }
  EXPECT_EQ(resources[0], resources[4]);
  EXPECT_EQ(resources[1], resources[5]);
}

}  // namespace
}  // namespace tutti::integration
