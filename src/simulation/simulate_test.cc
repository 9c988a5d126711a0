#include "simulation/simulate.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

constexpr double kClose = 1e-9;

Cells input(int first, int count = 1) { return {kSelf, Buffer::input, first, count}; }
Cells output(int first, int count = 1) { return {kSelf, Buffer::output, first, count}; }

Step step(StepKind kind, std::vector<Cells> sources, std::vector<Cells> targets, std::vector<Dependency> after = {}) {
  Step made;
  made.kind = kind;
  made.sources = std::move(sources);
  made.targets = std::move(targets);
  made.after = std::move(after);
  return made;
}
Step send(Cells source, std::vector<Dependency> after = {}) {
  return step(StepKind::send, {source}, {}, std::move(after));
}
Step recv(Cells target) { return step(StepKind::recv, {}, {target}); }

Worker to(int peer, std::vector<Step> steps, int channel = 0) {
  return {.send_peer = peer, .channel = channel, .steps = std::move(steps)};
}
Worker from(int peer, std::vector<Step> steps, int channel = 0) {
  return {.recv_peer = peer, .channel = channel, .steps = std::move(steps)};
}

/// A broadcast from rank 0, as far as simulation can tell.
Program program_of(std::vector<RankProgram> parts, int chunks = 1) {
  const int ranks = static_cast<int>(parts.size());
  return make_flat("test", {Collective::broadcast, ranks, 0, chunks}, std::move(parts));
}

/// `count` GPUs and no links.
Topology gpus(int count) {
  Topology topology("test");
  for (int i = 0; i < count; ++i) topology.add_gpu("g" + std::to_string(i), 0);
  return topology;
}

/// GPUs in a line, each link of 100 bytes a second and a latency of a second.
Topology line(int count) {
  Topology topology = gpus(count);
  for (int i = 0; i + 1 < count; ++i) topology.add_duplex({i, i + 1, 100, 1, "wire"});
  return topology;
}

/// GPUs with a port of 100 bytes a second into a switch; half a second each way.
Topology star(int count) {
  Topology topology = gpus(count);
  const int middle = topology.add_switch("switch", 0);
  for (int i = 0; i < count; ++i) topology.add_duplex({i, middle, 100, Rational(1, 2), "port"});
  return topology;
}

Simulation run(const Program& program, const Topology& topology, const SimulationOptions& options) {
  Routes routes(topology);
  auto done = simulate(program, routes, options);
  if (!done) {
    ADD_FAILURE() << done.error().message;
    return {};
  }
  return *done;
}

std::string error_of(const Program& program, const Topology& topology, const SimulationOptions& options = {}) {
  Routes routes(topology);
  const auto done = simulate(program, routes, options);
  return done ? "no error" : done.error().message;
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Program one_send() { return program_of({{0, {to(1, {send(input(0))})}}, {0, {from(0, {recv(output(0))})}}}); }

TEST(Simulation, OfOneSendIsItsLatencyAndItsBytesAtTheCapacity) {
  const Simulation done = run(one_send(), line(2), {.bytes = 300, .keeps_flights = true});
  EXPECT_NEAR(done.seconds, 1 + 3, kClose);
  EXPECT_NEAR(done.rank_seconds[0], 3, kClose) << "the sender goes on when the last byte has left";
  EXPECT_NEAR(done.rank_seconds[1], 4, kClose);
  EXPECT_NEAR(done.link_busy[0], 3, kClose);
  EXPECT_EQ(done.link_busy[1], 0);
  EXPECT_EQ(done.pieces, 1U);
  ASSERT_EQ(done.flights.size(), 1U);
  EXPECT_EQ(done.flights[0].to, 1);
  EXPECT_NEAR(done.flights[0].ends, 4, kClose);
}

TEST(Simulation, OfNoBytesIsTheLatency) {
  EXPECT_NEAR(run(one_send(), line(2), {.bytes = 0}).seconds, 1, kClose);
  Program barrier = one_send();
  barrier.shape.collective = Collective::barrier;
  EXPECT_NEAR(run(barrier, line(2), {.bytes = 300}).seconds, 1, kClose);
}

TEST(Simulation, PassesAPieceThroughASwitchWhileItsTailIsStillComing) {
  EXPECT_NEAR(run(one_send(), star(2), {.bytes = 300}).seconds, 1 + 3, kClose);
}

TEST(Simulation, IsAsSlowAsTheSlowestLinkOfARoute) {
  for (const bool slow_first : {true, false}) {
    Topology topology = gpus(2);
    const int middle = topology.add_switch("switch", 0);
    topology.add_link({0, middle, slow_first ? 100 : 300, 1, ""});
    topology.add_link({middle, 1, slow_first ? 300 : 100, 2, ""});
    topology.add_link({1, 0, 1, 1, ""});
    const Simulation done = run(one_send(), topology, {.bytes = 300});
    EXPECT_NEAR(done.seconds, 3 + 3, kClose);
    EXPECT_NEAR(done.rank_seconds[0], slow_first ? 3 : 1, kClose);
  }
}

/// Rank 0's block goes on from rank to rank.
Program chain(int ranks) {
  std::vector<RankProgram> parts;
  parts.push_back({0, {to(1, {send(input(0))})}});
  for (int rank = 1; rank + 1 < ranks; ++rank) {
    Worker worker{.send_peer = rank + 1, .recv_peer = rank - 1, .steps = {}};
    worker.steps.push_back(step(StepKind::recv_copy_send, {}, {output(0)}));
    parts.push_back({0, {worker}});
  }
  parts.push_back({0, {from(ranks - 2, {recv(output(0))})}});
  return program_of(std::move(parts));
}

TEST(Simulation, ForwardsWhatHasArrivedWhole) {
  EXPECT_NEAR(run(chain(4), line(4), {.bytes = 300}).seconds, 3 * (1 + 3), kClose);
}

TEST(Simulation, OfTilesIsAPipeline) {
  // 12 tiles of 25 bytes: the last leaves rank 0 after 3 s, and needs 1 s and 1/4 s on each link but the first's 1/4.
  EXPECT_NEAR(run(chain(4), line(4), {.bytes = 300, .tile = 25}).seconds, 3 + 3 * 1 + 2 * 0.25, kClose);
  EXPECT_EQ(run(chain(4), line(4), {.bytes = 300, .tile = 25}).pieces, 36U);
}

TEST(Simulation, HasAShorterLastTile) {
  const Simulation done = run(one_send(), line(2), {.bytes = 250, .tile = 100});
  EXPECT_EQ(done.pieces, 3U);
  EXPECT_NEAR(done.seconds, 1 + 2.5, kClose);
}

TEST(Simulation, LetsNoMorePiecesOutThanAChannelHolds) {
  // A slot is free again when its piece has arrived, 1.5 s after it began; the two directions take turns.
  EXPECT_NEAR(run(one_send(), line(2), {.bytes = 200, .tile = 50, .slots = 1}).seconds, 4 * 1.5, kClose);
  EXPECT_NEAR(run(one_send(), line(2), {.bytes = 200, .tile = 50, .slots = 2}).seconds, 3 * 0.5 + 1 + 2 * 0.5, kClose);
  EXPECT_NEAR(run(one_send(), line(2), {.bytes = 200, .tile = 50, .slots = 3}).seconds, 4 * 0.5 + 1, kClose);
}

TEST(Simulation, SharesAPortBetweenTwoFlows) {
  // Ranks 1 and 2 send to rank 0, each over a port of its own; rank 0's port carries both.
  const Program both = program_of({{0, {from(1, {recv(output(0))}), from(2, {recv(output(1))})}},
                                   {0, {to(0, {send(input(0))})}},
                                   {0, {to(0, {send(input(1))})}}},
                                  2);
  EXPECT_NEAR(run(both, star(3), {.bytes = 600}).seconds, 1 + 2 * 3, kClose);
}

TEST(Simulation, ServesFirstWhatComesFirst) {
  // Rank 2 waits for rank 1's word before it sends to rank 0; what rank 1 sends there comes before.
  const Program program = program_of({{0, {from(1, {recv(output(0))}), from(2, {recv(output(1))})}},
                                      {0, {to(2, {send(input(0))}), to(0, {send(input(0))})}},
                                      {0, {from(1, {recv(output(0))}), to(0, {send(input(1), {{0, 0}})})}}},
                                     2);
  const Simulation done = run(program, star(3), {.bytes = 200, .keeps_flights = true});
  ASSERT_EQ(done.flights.size(), 3U);
  EXPECT_EQ(done.flights[0].to, 2) << "the first worker to ask gets the port first";
  EXPECT_EQ(done.flights[1].to, 0);
  EXPECT_NEAR(done.flights[1].begins, 1, kClose);
  EXPECT_NEAR(done.flights[1].ends, 3, kClose);
  EXPECT_EQ(done.flights[2].from, 2);
  EXPECT_NEAR(done.flights[2].begins, 2, kClose);
  EXPECT_NEAR(done.seconds, 4, kClose);
}

TEST(Simulation, TakesLinksSideBySideByChannel) {
  Topology topology = line(2);
  topology.add_link({0, 1, 100, 1, "second"});
  const auto two = [](int channel) {
    return program_of({{0, {to(1, {send(input(0))}), to(1, {send(input(1))}, channel)}},
                       {0, {from(0, {recv(output(0))}), from(0, {recv(output(1))}, channel)}}},
                      2);
  };
  EXPECT_NEAR(run(two(1), topology, {.bytes = 600}).seconds, 1 + 3, kClose);
  EXPECT_NEAR(run(two(2), topology, {.bytes = 600}).seconds, 1 + 6, kClose);
}

/// Every block travels round the ring.
Program ring_all_gather(int ranks) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    Worker worker{.send_peer = (rank + 1) % ranks, .recv_peer = (rank + ranks - 1) % ranks, .steps = {}};
    worker.steps.push_back(send(input(0)));
    for (int i = 1; i + 1 < ranks; ++i)
      worker.steps.push_back(step(StepKind::recv_copy_send, {}, {output((rank + ranks - i) % ranks)}));
    worker.steps.push_back(recv(output((rank + 1) % ranks)));
    parts.push_back({0, {worker}});
  }
  return make_flat("ring", {Collective::all_gather, ranks, 0, 1}, std::move(parts));
}

TEST(Simulation, OfARingIsItsRounds) {
  for (const int ranks : {3, 4, 7}) {
    Topology topology = line(ranks);
    topology.add_duplex({ranks - 1, 0, 100, 1, "wire"});
    const Simulation done = run(ring_all_gather(ranks), topology, {.bytes = static_cast<std::uint64_t>(300 * ranks)});
    EXPECT_NEAR(done.seconds, (ranks - 1) * (1 + 3), kClose) << ranks;
    for (const double each : done.rank_seconds) EXPECT_NEAR(each, done.seconds, kClose);
  }
}

TEST(Simulation, WaitsForTheSameTileOfADependency) {
  // What rank 1 has received it sends on by another worker: tile by tile, as recv_copy_send would.
  const Program program = program_of({{0, {to(1, {send(input(0))})}},
                                      {0, {to(2, {send(output(0), {{1, 0}})}), from(0, {recv(output(0))})}},
                                      {0, {from(1, {recv(output(0))})}}});
  EXPECT_NEAR(run(program, line(3), {.bytes = 300}).seconds, 2 * (1 + 3), kClose);
  EXPECT_NEAR(run(program, line(3), {.bytes = 300, .tile = 50}).seconds, 3 + 2 + 0.5, kClose);
}

TEST(Simulation, TakesTimeForStepsAndArithmeticWhereTold) {
  const Program program = program_of(
      {{0, {to(1, {send(input(0))})}},
       {0,
        {from(0, {step(StepKind::recv_reduce, {input(0)}, {output(0)}), step(StepKind::copy, {output(0)}, {output(0)}),
                  step(StepKind::reduce, {input(0), input(0), input(0)}, {output(0)})})}}});
  EXPECT_NEAR(run(program, line(2), {.bytes = 300}).seconds, 4, kClose);
  EXPECT_NEAR(run(program, line(2), {.bytes = 300, .memory_rate = 300}).seconds, 4 + 1 + 1 + 2, kClose);
  // Rank 1 has begun to wait by the time the piece arrives, half a second later than without.
  EXPECT_NEAR(run(program, line(2), {.bytes = 300, .step_seconds = 0.5}).seconds, 4 + 0.5 + 2 * 0.5, kClose);
}

TEST(Simulation, RefusesProgramsThatDoNotFit) {
  EXPECT_TRUE(mentions(error_of(chain(3), line(2)), "is for 3 ranks, and test has 2"));
  EXPECT_TRUE(mentions(error_of(one_send(), line(2), {.slots = 0}), "slots: 0"));
  EXPECT_TRUE(mentions(error_of(one_send(), line(2), {.bytes = 1 << 30, .tile = 1}), "tile: 1"));

  const Program skips = program_of({{0, {to(2, {send(input(0))})}}, {}, {0, {from(0, {recv(output(0))})}}});
  EXPECT_TRUE(mentions(error_of(skips, line(3)), "rank 0 sends to rank 2, but test has no route from g0 to g2"))
      << error_of(skips, line(3));

  Program one_sided = one_send();
  one_sided.one_sided = true;
  EXPECT_TRUE(mentions(error_of(one_sided, line(2)), "program test is one-sided"));
  Step signal;
  signal.kind = StepKind::signal;
  const Cells elsewhere{1, Buffer::output, 0, 1};
  for (const Step& reaching : {signal, step(StepKind::copy, {input(0)}, {elsewhere})}) {
    Program unsaid = program_of({{0, {to(1, {reaching})}}, {}});
    unsaid.one_sided = false;
    EXPECT_TRUE(mentions(error_of(unsaid, line(2)), "rank 0, worker 0, step 0: a one-sided step"));
  }
}

TEST(Simulation, RefusesWhatNoCheckerHasSeen) {
  EXPECT_TRUE(mentions(error_of(program_of({{0, {to(5, {send(input(0))})}}, {}}), line(2)), "sends to 5"));
  EXPECT_TRUE(mentions(error_of(program_of({{0, {to(1, {send(input(0), {{3, 0}})})}}, {}}), line(2)),
                       "waits for worker 3, step 0: none"));
  EXPECT_TRUE(mentions(error_of(program_of({{0, {to(1, {step(StepKind::send, {}, {})})}}, {}}), line(2)), "no cells"));
  EXPECT_TRUE(mentions(error_of(program_of({{0, {to(1, {send(input(0))}), to(1, {send(input(0))})}}, {}}), line(2)),
                       "two workers send from rank 0 to rank 1 on channel 0"));
}

TEST(Simulation, NamesTheStepsThatWaitForEver) {
  const auto receives_first = [](int peer) {
    return RankProgram{0, {{.send_peer = peer, .recv_peer = peer, .steps = {recv(output(0)), send(input(0))}}}};
  };
  EXPECT_EQ(error_of(program_of({receives_first(1), receives_first(0)}), line(2)),
            "deadlock: rank 0 worker 0 step 0 waits for a piece on channel 0 from rank 1; rank 1 worker 0 step 0 waits "
            "for a piece on channel 0 from rank 0");
  const Program nobody_takes = program_of({{0, {to(1, {send(input(0)), send(input(0))})}}, {}});
  EXPECT_EQ(error_of(nobody_takes, line(2), {.slots = 1}),
            "deadlock: rank 0 worker 0 step 1 waits for room on channel 0 to rank 1");
  const Program circle = program_of({{0, {to(1, {send(input(0), {{0, 0}})})}}, {}});
  EXPECT_EQ(error_of(circle, line(2)), "deadlock: rank 0 worker 0 step 0 waits for worker 0 step 0");
}

}  // namespace
}  // namespace tutti
