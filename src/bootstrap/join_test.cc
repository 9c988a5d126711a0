#include "bootstrap/join.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "net/fake_sockets_test_kit.hpp"
#include "net/free_port_test_kit.hpp"
#include "net/handshake.hpp"

namespace tutti {
namespace {

using Answer = Result<std::vector<Blob>>;

Blob blob_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Blob(bytes.begin(), bytes.end());
}

JoinInfo info_of(int rank, int size, std::uint16_t port, double seconds = 20) {
  JoinInfo info;
  info.endpoints = {{"127.0.0.1", port}};
  info.secret = "secret";
  info.rank = rank;
  info.size = size;
  info.blob = blob_of("rank " + std::to_string(rank));
  info.deadline = Deadline::in(seconds);
  return info;
}

// Each on a thread of its own, as ranks are.
std::vector<Answer> join_all(const std::vector<JoinInfo>& infos) {
  std::vector<Answer> answers(infos.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < infos.size(); ++i) threads.emplace_back([&, i] { answers[i] = join(infos[i]); });
  for (std::thread& thread : threads) thread.join();
  return answers;
}

std::vector<JoinInfo> ranks(int size, std::uint16_t port, double seconds = 20) {
  std::vector<JoinInfo> infos;
  for (int rank = 0; rank < size; ++rank) infos.push_back(info_of(rank, size, port, seconds));
  return infos;
}

void expect_gathered(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    ASSERT_TRUE(answer) << answer.error().to_string();
    ASSERT_EQ(answer->size(), answers.size());
    for (std::size_t rank = 0; rank < answers.size(); ++rank)
      EXPECT_EQ((*answer)[rank], blob_of("rank " + std::to_string(rank)));
  }
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Deadline::Clock::now();
  work();
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

Fd connect_as_stranger(std::uint16_t port) {
  return std::move(*connect_to(SocketAddress::loopback(AF_INET, port), Deadline::in(5)));
}

TEST(Join, GathersTheBlobsOfAllRanks) {
  for (const int size : {1, 2, 16}) expect_gathered(join_all(ranks(size, free_port())));
}

Blob second_blob_of(int rank) { return blob_of("round 2, rank " + std::to_string(rank)); }

// Brings a second blob once the first ones are there.
std::vector<JoinInfo> two_rounds(int size, std::uint16_t port, double seconds = 20) {
  std::vector<JoinInfo> infos = ranks(size, port, seconds);
  for (JoinInfo& info : infos)
    info.again = [rank = info.rank](const std::vector<Blob>& blobs) -> Result<std::optional<Blob>> {
      if (blobs.back() == second_blob_of(static_cast<int>(blobs.size()) - 1)) return std::nullopt;
      return second_blob_of(rank);
    };
  return infos;
}

TEST(Join, GathersAgainInAnotherRound) {
  for (const int size : {1, 2, 16}) {
    const std::vector<Answer> answers = join_all(two_rounds(size, free_port()));
    for (const Answer& answer : answers) {
      ASSERT_TRUE(answer) << answer.error().to_string();
      for (int rank = 0; rank < size; ++rank)
        EXPECT_EQ((*answer)[static_cast<std::size_t>(rank)], second_blob_of(rank));
    }
  }
}

TEST(Join, TellsWhereTheStoreIsWhoHasCome) {
  std::vector<JoinInfo> infos = ranks(4, free_port());
  std::set<int> seen;  // by the thread of rank 0 and that of its store, one at a time
  std::atomic<int> seen_elsewhere = 0;
  infos[0].on_joined = [&](int rank) { seen.insert(rank); };
  infos[1].on_joined = [&](int) { ++seen_elsewhere; };
  expect_gathered(join_all(infos));
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(seen_elsewhere, 0);
}

TEST(Join, FailsOnAllRanksIfOneLeavesBetweenTheRounds) {
  for (const bool late : {false, true}) {
    std::vector<JoinInfo> infos = two_rounds(4, free_port());
    infos[2].again = [late](const std::vector<Blob>&) -> Result<std::optional<Blob>> {
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return fail(ErrorCode::system, "no second blob");
    };
    std::vector<Answer> answers;
    EXPECT_LT(seconds_of([&] { answers = join_all(infos); }), 5);
    for (int rank = 0; rank < 4; ++rank) {
      const Answer& answer = answers[static_cast<std::size_t>(rank)];
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code, rank == 2 ? ErrorCode::system : ErrorCode::rank_died) << answer.error().message;
      if (rank != 2) {
        EXPECT_EQ(answer.error().peer, 2) << answer.error().message;
      }
    }
  }
}

TEST(Join, NamesTheRankThatIsMissingInTheNextRound) {
  std::vector<JoinInfo> infos = two_rounds(3, free_port(), 1);
  infos[1].deadline = Deadline::in(20);
  infos[1].again = [](const std::vector<Blob>&) -> Result<std::optional<Blob>> {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return second_blob_of(1);
  };
  const std::vector<Answer> answers = join_all(infos);
  for (const Answer& answer : answers) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::timed_out) << answer.error().message;
    EXPECT_EQ(answer.error().message.find("rank 1 of 3 has not joined within "), 0u) << answer.error().message;
  }
}

TEST(Join, CanBeRepeatedAtOncePortAndAll) {
  const std::uint16_t port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([=] {
      for (int round = 0; round < 10; ++round) {
        JoinInfo info = info_of(rank, 4, port);
        info.job = "round " + std::to_string(round);
        const auto answer = join(info);
        EXPECT_TRUE(answer) << answer.error().to_string();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Join, FindsTheStoreAmongSeveralPortsPastOtherServices) {
  const auto stranger = listen_on(SocketAddress::loopback(), {});
  const auto taken = local_address(stranger->get())->port();
  std::vector<JoinInfo> infos = ranks(3, taken);
  for (JoinInfo& info : infos) info.endpoints.push_back({"127.0.0.1", free_port()});
  for (JoinInfo& info : infos) info.endpoints[1] = infos[0].endpoints[1];
  std::thread hangs_up([&] {  // the other service turns everybody away
    while (auto visitor = accept_before(stranger->get(), Deadline::in(0.5))) {
    }
  });
  expect_gathered(join_all(infos));
  hangs_up.join();
}

TEST(Join, NamesTheRanksThatAreMissingAtTheDeadline) {
  const std::uint16_t port = free_port();
  std::vector<JoinInfo> infos = ranks(8, port, 1);
  infos.erase(infos.begin() + 7);
  infos.erase(infos.begin() + 3);
  std::vector<Answer> answers;
  EXPECT_LT(seconds_of([&] { answers = join_all(infos); }), 3);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_FALSE(answers[i]);
    EXPECT_EQ(answers[i].error().code, ErrorCode::timed_out);
    EXPECT_EQ(answers[i].error().message.find("ranks 3, 7 of 8 have not joined within "), 0u)
        << answers[i].error().message;
    EXPECT_EQ(answers[i].error().rank, infos[i].rank);
  }
}

TEST(Join, SaysThatTheStoreWasNotReached) {
  const auto answer = join(info_of(1, 2, free_port(), 0.1));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::timed_out);
  EXPECT_NE(answer.error().message.find("rank 0's store was not reached within "), std::string::npos);
}

TEST(Join, TurnsASecondRankOfTheSameNumberAwayAndServesTheOthers) {
  const std::uint16_t port = free_port();
  std::vector<JoinInfo> infos = ranks(3, port);
  infos.push_back(infos[1]);
  infos.erase(infos.begin() + 2);  // ranks 0, 1, 1
  std::vector<Answer> answers(3);
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      answers[i] = join(infos[i]);
      if (!answers[i]) ++refused;
    });
  while (refused == 0) std::this_thread::yield();  // rank 2 comes only after the double was turned away
  const auto last = join(info_of(2, 3, port));
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(last) << last.error().to_string();
  EXPECT_TRUE(answers[0]);
  EXPECT_NE(answers[1].has_value(), answers[2].has_value());
  const Answer& twin = answers[1] ? answers[2] : answers[1];
  EXPECT_EQ(twin.error().code, ErrorCode::refused);
  EXPECT_NE(twin.error().message.find("rank 1 is taken: one joined from 127.0.0.1:"), std::string::npos);
}

TEST(Join, TellsEverybodyThatRanksDisagreeAboutTheSize) {
  const std::uint16_t port = free_port();
  std::vector<JoinInfo> infos = {info_of(0, 16, port), info_of(3, 8, port)};
  for (const Answer& answer : join_all(infos)) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::refused);
    EXPECT_TRUE(answer.error().message == "rank 3 says 8 ranks, rank 0 says 16" ||
                answer.error().message == "rank 0 says 16 ranks, rank 3 says 8")
        << answer.error().message;
  }
}

TEST(Join, TellsEverybodyWhichSettingDiffers) {
  std::vector<JoinInfo> infos = ranks(2, free_port());
  infos[0].settings = {{"TUTTI_SHM", "1"}, {"TUTTI_TCP_LANES", "2"}};
  infos[1].settings = {{"TUTTI_SHM", "1"}, {"TUTTI_TCP_LANES", "4"}};
  for (const Answer& answer : join_all(infos)) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::refused);
    for (const char* part : {"rank 0 has TUTTI_TCP_LANES=2", "rank 1 has TUTTI_TCP_LANES=4"})
      EXPECT_NE(answer.error().message.find(part), std::string::npos) << answer.error().message;
  }
}

TEST(Join, RefusesARankBeyondTheSizeBeforeAskingAnybody) {
  const auto answer = join(info_of(4, 4, free_port()));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(answer.error().message, "rank 4: expected 0 to 3");
}

TEST(Join, DropsAWrongSecretWithoutDisturbingTheOthers) {
  const std::uint16_t port = free_port();
  Answer first;
  std::thread rank_zero([&] { first = join(info_of(0, 2, port)); });
  JoinInfo intruder = info_of(1, 2, port);
  intruder.secret = "guess";
  // As ranks of torchrun do, which know only about where rank 0 listens.
  intruder.endpoints.push_back({"127.0.0.1", free_port()});
  Answer refused;
  EXPECT_LT(seconds_of([&] { refused = join(intruder); }), 5) << "it waited for the end of its 20 s";
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::refused);
  EXPECT_NE(refused.error().message.find("different secret"), std::string::npos);
  EXPECT_TRUE(join(info_of(1, 2, port)));
  rank_zero.join();
  EXPECT_TRUE(first);
}

TEST(Join, WithoutASecretTurnsOtherUsersOfTheHostAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const std::uint16_t port = free_port();
  std::vector<JoinInfo> infos = ranks(2, port);
  for (JoinInfo& info : infos) info.secret.clear();
  const pid_t other = fork();
  if (other == 0) {
    if (::setuid(54321) != 0) _exit(1);
    const auto answer = join(infos[1]);
    ::unlink("/dev/shm/tutti-secret-54321");
    _exit(!answer && answer.error().code == ErrorCode::refused ? 3 : 0);
  }
  Answer first;
  std::thread rank_zero([&] { first = join(infos[0]); });
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3) << "another user joined, or was not told that it is refused";
  EXPECT_TRUE(join(infos[1]));
  rank_zero.join();
  EXPECT_TRUE(first);
}

TEST(Join, IsNotDelayedByGarbageOrSilence) {
  const std::uint16_t port = free_port();
  Answer first;
  std::thread rank_zero([&] { first = join(info_of(0, 2, port)); });
  std::vector<Fd> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_as_stranger(port));
  const std::string_view garbage = "GET / HTTP/1.1\r\n\r\n";
  for (int i = 0; i < 100; ++i) (void)send_some(strangers[i].get(), std::as_bytes(std::span(garbage)));
  Answer second;
  EXPECT_LT(seconds_of([&] { second = join(info_of(1, 2, port)); }), 2);
  rank_zero.join();
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
}

TEST(Store, SaysAtOnceIfItCannotHoldAllRanks) {
  const std::uint16_t port = free_port();
  std::array<int, 2> said{};
  ASSERT_EQ(pipe(said.data()), 0);
  const pid_t host = fork();
  if (host == 0) {
    const rlimit few{64, 64};
    setrlimit(RLIMIT_NOFILE, &few);
    const Answer answer = join(info_of(0, 100, port));
    const std::string why = answer ? "joined" : answer.error().message;
    (void)!write(said[1], why.data(), why.size());
    _exit(0);
  }
  close(said[1]);
  std::array<char, 512> why{};
  const double seconds = seconds_of([&] { EXPECT_GT(read(said[0], why.data(), why.size() - 1), 0); });
  EXPECT_LT(seconds, 5);
  EXPECT_NE(std::string(why.data()).find("100 ranks meet at rank 0, which needs 116 descriptors and may open 64"),
            std::string::npos)
      << why.data();
  waitpid(host, nullptr, 0);
  close(said[0]);
}

TEST(Store, LeavesDescriptorsToTheApplicationHoweverManyStrangersThereAre) {
  const std::uint16_t port = free_port();
  // A process of its own with few descriptors hosts the store; it counts what is left to it when all strangers are in.
  std::array<int, 2> go{};
  ASSERT_EQ(pipe(go.data()), 0);
  const pid_t host = fork();
  if (host == 0) {
    const rlimit few{256, 256};
    setrlimit(RLIMIT_NOFILE, &few);
    Answer answer;
    std::thread rank_zero([&] { answer = join(info_of(0, 2, port)); });
    char ready = 0;
    if (read(go[0], &ready, 1) != 1) _exit(1);
    int opened = 0;
    while (opened < 100 && dup(0) >= 0) ++opened;
    if (opened < 100) _exit(2);
    rank_zero.join();
    _exit(answer ? 0 : 3);
  }
  std::vector<Fd> strangers;
  for (int i = 0; i < 400; ++i) strangers.push_back(connect_as_stranger(port));
  // The one that came last is still welcome: the oldest have made room. Now all are accepted.
  const Fd last = connect_as_stranger(port);
  EXPECT_TRUE(authenticate(last.get(), Side::connector, Purpose::bootstrap, JobKey("secret"), Deadline::in(15)));
  EXPECT_EQ(write(go[1], "x", 1), 1);
  EXPECT_TRUE(join(info_of(1, 2, port)));
  std::array<std::byte, 1> byte;
  const auto oldest = recv_all(strangers.front().get(), byte, Deadline::in(1));
  EXPECT_TRUE(!oldest && oldest.error().code == ErrorCode::system) << "the oldest was kept";
  int status = 0;
  waitpid(host, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "2: no descriptors left; 3: rank 0 did not join";
  close(go[0]);
  close(go[1]);
}

TEST(Join, SurvivesDamagedRequestsFromThoseWhoKnowTheSecret) {
  const std::uint16_t port = free_port();
  Answer first;
  std::thread rank_zero([&] { first = join(info_of(0, 2, port)); });
  for (const std::uint32_t length : {0u, 5u, 0xffffffffu}) {
    Fd stranger = connect_as_stranger(port);
    ASSERT_TRUE(authenticate(stranger.get(), Side::connector, Purpose::bootstrap, JobKey("secret"), Deadline::in(5)));
    Blob frame(kLengthBytes + 5, std::byte{0xee});
    std::memcpy(frame.data(), &length, sizeof length);
    (void)send_all(stranger.get(), frame, Deadline::in(1));
    std::array<std::byte, 1> answer;
    const auto dropped = recv_all(stranger.get(), answer, Deadline::in(4));
    ASSERT_FALSE(dropped);
    EXPECT_EQ(dropped.error().code, ErrorCode::system) << "the store hangs up";
  }
  EXPECT_TRUE(join(info_of(1, 2, port)));
  rank_zero.join();
  EXPECT_TRUE(first);
}

// A process of its own that joins; it ends with 3 where it is refused.
pid_t start_rank(const JoinInfo& info) {
  const pid_t child = fork();
  if (child == 0) {
    const auto answer = join(info);
    _exit(!answer && answer.error().code == ErrorCode::refused ? 3 : 0);
  }
  return child;
}

// Of two who claim a rank one is turned away: then the other has joined for sure.

TEST(Join, EndsAtOnceWhenTheStoreDies) {
  const std::uint16_t port = free_port();
  const pid_t rank_zero = start_rank(info_of(0, 3, port));
  std::vector<Answer> answers(2);
  std::atomic<int> ended{0};
  std::vector<std::thread> twins;
  for (int i = 0; i < 2; ++i)
    twins.emplace_back([&, i] {
      answers[i] = join(info_of(1, 3, port));
      ++ended;
    });
  while (ended == 0) std::this_thread::yield();
  kill(rank_zero, SIGKILL);
  EXPECT_LT(seconds_of([&] {
              for (std::thread& twin : twins) twin.join();
            }),
            1);
  waitpid(rank_zero, nullptr, 0);
  const Answer& refused = answers[0].error().code == ErrorCode::refused ? answers[0] : answers[1];
  const Answer& joined = &refused == &answers[0] ? answers[1] : answers[0];
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::rank_died) << joined.error().message;
  EXPECT_EQ(joined.error().peer, 0);
}

TEST(Join, EndsForAllWhenARankThatHadJoinedDies) {
  const std::uint16_t port = free_port();
  const pid_t twins[2] = {start_rank(info_of(1, 3, port)), start_rank(info_of(1, 3, port))};
  Answer answer;
  std::thread rank_zero([&] { answer = join(info_of(0, 3, port)); });
  int status = 0;
  const pid_t refused = waitpid(-1, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  const pid_t joined = twins[refused == twins[0] ? 1 : 0];
  kill(joined, SIGKILL);
  waitpid(joined, &status, 0);
  EXPECT_LT(seconds_of([&] { rank_zero.join(); }), 1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::rank_died) << answer.error().message;
  EXPECT_EQ(answer.error().peer, 1);
}

TEST(Store, ServesAThousandRanks) {
  // As many connections as 1,024 ranks make, from one thread: handshake and request each, then all answers.
  constexpr int kRanks = 1024;
  auto listener = listen_on(SocketAddress::loopback(), {});
  const auto address = *local_address(listener->get());
  std::vector<Fd> listeners;
  listeners.push_back(std::move(*listener));
  const auto store = Store::start(std::move(listeners), JobKey("secret"));
  ASSERT_TRUE(store);
  std::vector<Fd> connections;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto connection = connect_to(address, Deadline::in(5));
    if (!connection) GTEST_SKIP() << connection.error().message << "; raise the limit of open files (ulimit -n 4096)";
    const auto proven =
        authenticate(connection->get(), Side::connector, Purpose::bootstrap, JobKey("secret"), Deadline::in(5));
    if (!proven) GTEST_SKIP() << proven.error().message << "; raise the limit of open files (ulimit -n 4096)";
    JoinRequest request;
    request.rank = rank;
    request.size = kRanks;
    request.patience = request.patience_was = 20;
    request.blob = blob_of("rank " + std::to_string(rank));
    ASSERT_TRUE(send_all(connection->get(), encode_request(request), Deadline::in(5)));
    connections.push_back(std::move(*connection));
  }
  for (Fd& connection : connections) {
    std::array<std::byte, kLengthBytes> header;
    ASSERT_TRUE(recv_all(connection.get(), header, Deadline::in(10)));
    Blob answer(frame_length(header));
    ASSERT_TRUE(recv_all(connection.get(), answer, Deadline::in(10)));
    const auto gathered = decode_answer(answer);
    ASSERT_TRUE(gathered);
    EXPECT_EQ(gathered->blobs.back(), blob_of("rank 1023"));
    connection.reset();
  }
  EXPECT_TRUE((*store)->wait_answered(Deadline::in(5)));
}

// Two hosts that only exist in this process.
TEST(Join, UsesTheSocketsThatItIsGiven) {
  SocketPairNetwork network;
  FakeSockets one(network, "10.0.0.1");
  FakeSockets other(network, "10.0.0.2");
  std::vector<JoinInfo> infos = ranks(2, 4000);
  for (JoinInfo& info : infos) {
    info.endpoints = {{"10.0.0.1", 4000}};
    info.sockets = info.rank == 0 ? &one : &other;
  }
  expect_gathered(join_all(infos));
  EXPECT_GE(network.connections(), 2);
}

}  // namespace
}  // namespace tutti
