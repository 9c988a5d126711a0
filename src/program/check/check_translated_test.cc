// The proof by the representatives' parts says what the proof of all parts says.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "program/check/check.hpp"
#include "program/program_test_kit.hpp"
#include "program/translated_parts.hpp"

namespace tutti {
namespace {

struct Symmetric {
  Program program;
  Translations translations;
};

/// Every rank sends to, and receives from, each other one straight away.
Program pairwise_all_to_all(int ranks) {
  Program program;
  program.name = "pairwise";
  program.shape = {Collective::all_to_all, ranks, 0, 1};
  program.part = [=](int rank) {
    RankProgram part;
    Worker own;
    own.steps.push_back(make(StepKind::copy, {cells(Buffer::input, rank)}, {cells(Buffer::output, rank)}));
    part.workers.push_back(own);
    for (int distance = 1; distance < ranks; ++distance) {
      Worker worker;
      worker.send_peer = wrap(rank + distance, ranks);
      worker.recv_peer = wrap(rank - distance, ranks);
      worker.steps.push_back(make(StepKind::send, {cells(Buffer::input, worker.send_peer)}, {}));
      worker.steps.push_back(make(StepKind::recv, {}, {cells(Buffer::output, worker.recv_peer)}));
      part.workers.push_back(worker);
    }
    return part;
  };
  program.in_place = false;
  return program;
}

Symmetric around(const Program& program) { return {program, Translations({{1, program.shape.ranks, true}})}; }

std::vector<Symmetric> examples() {
  std::vector<Symmetric> all;
  for (const int ranks : {2, 3, 4, 6}) {
    all.push_back(around(ring_all_gather(ranks)));
    all.push_back(around(ring_all_reduce(ranks)));
    all.push_back(around(one_shot_all_reduce(ranks)));
    all.push_back(around(pairwise_all_to_all(ranks)));
  }
  all.push_back({ring_all_gather(6), Translations({{2, 3, true}})});
  all.push_back({pairwise_all_to_all(6), Translations({{2, 3, true}})});
  all.push_back({pairwise_all_to_all(6), Translations({{3, 2, true}})});
  return all;
}

/// The program whose ranks all do what the representatives do, translated.
Program made_by_moving(const Symmetric& example, std::vector<RankProgram> representatives) {
  Program program = example.program;
  program.part = translated_parts(std::move(representatives), program.shape, example.translations);
  return program;
}

std::vector<RankProgram> homes_of(const Symmetric& example) {
  std::vector<RankProgram> representatives;
  for (int rank = 0; rank < example.program.shape.ranks; ++rank)
    if (example.translations.representative_of(rank) == rank) representatives.push_back(example.program.part(rank));
  return representatives;
}

TEST(CheckMoved, PassesWhatIsRightOnEveryRank) {
  for (const Symmetric& example : examples()) {
    EXPECT_TRUE(check(example.program).ok());
    const CheckReport report = check_translated(example.program, example.translations);
    EXPECT_TRUE(report.ok()) << example.program.name << ", " << example.program.shape.ranks
                             << " ranks: " << report.violation->to_string();
    for (int rank = 0; rank < example.program.shape.ranks; ++rank)
      EXPECT_FALSE(check_part(example.program, example.translations, rank)) << example.program.name;
  }
}

/// One random change of a representative's part.
void spoil(RankProgram& part, const Shape& shape, std::mt19937& random) {
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  Worker& worker = part.workers[static_cast<std::size_t>(below(static_cast<int>(part.workers.size())))];
  if (worker.steps.empty()) return;
  const auto at = below(static_cast<int>(worker.steps.size()));
  Step& step = worker.steps[static_cast<std::size_t>(at)];
  auto& cells_of_step = step.sources.empty() || below(2) == 0 ? step.targets : step.sources;
  switch (below(8)) {
    case 0:
      worker.steps.erase(worker.steps.begin() + at);
      break;
    case 1:
      worker.steps.insert(worker.steps.begin() + at, Step(step));
      break;
    case 2:
      if (!cells_of_step.empty()) cells_of_step[0].first += below(3) - 1;
      break;
    case 3:
      if (!cells_of_step.empty()) cells_of_step[0].buffer = static_cast<Buffer>(below(3));
      break;
    case 4:
      step.after.clear();
      break;
    case 5:
      if (at > 0) std::swap(worker.steps[static_cast<std::size_t>(at)], worker.steps[static_cast<std::size_t>(at) - 1]);
      break;
    case 6:
      (below(2) == 0 ? worker.send_peer : worker.recv_peer) = below(shape.ranks);
      break;
    default:
      if (step.peer != kNobody) step.peer = below(shape.ranks);
      step.completes = below(4) == 0 ? !step.completes : step.completes;
      break;
  }
}

TEST(CheckMoved, SaysOfSpoiltProgramsWhatTheProofOfAllRanksSays) {
  int wrong = 0;
  const std::vector<Symmetric> all = examples();
  for (unsigned seed = 0; seed < 6000; ++seed) {
    std::mt19937 random(seed);
    const Symmetric& example = all[seed % all.size()];
    std::vector<RankProgram> representatives = homes_of(example);
    const unsigned changes = 1 + random() % 2;
    for (unsigned i = 0; i < changes; ++i)
      spoil(representatives[random() % representatives.size()], example.program.shape, random);
    bool movable = true;
    for (const RankProgram& representative : representatives)
      movable = movable && check_translatable(representative, example.program.shape, example.translations);
    if (!movable) continue;
    const Program program = made_by_moving(example, representatives);
    const CheckReport full = check(program);
    const CheckReport by_homes = check_translated(program, example.translations);
    ASSERT_EQ(full.ok(), by_homes.ok()) << "seed " << seed << ", " << program.name << ": "
                                        << (full.ok() ? by_homes : full).violation->to_string();
    if (full.ok()) continue;
    ++wrong;
    EXPECT_EQ(name_of(full.violation->rule), name_of(by_homes.violation->rule))
        << "seed " << seed << ", " << program.name << ": " << full.violation->to_string() << "; "
        << by_homes.violation->to_string();
  }
  EXPECT_GT(wrong, 2000);
}

TEST(CheckPart, NamesTheStepThatIsNotItsHomesMoved) {
  const Program ring = ring_all_gather(6);
  Program other = ring;
  other.part = [ring](int rank) {
    RankProgram part = ring.part(rank);
    if (rank == 4) part.workers[0].steps[2].targets[0].first = 0;
    return part;
  };
  const Translations around_all({{1, 6, true}});
  EXPECT_TRUE(check_translated(other, around_all).ok()) << "looks at rank 0 only";
  EXPECT_FALSE(check_part(other, around_all, 3));
  const auto found = check_part(other, around_all, 4);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 4);
  EXPECT_EQ(found->worker, 0);
  EXPECT_EQ(found->step, 2);
}

TEST(CheckMoved, TakesAThousandRanksAsQuicklyAsOne) {
  const Program ring = ring_all_reduce(1024);
  EXPECT_TRUE(check_translated(ring, Translations({{1, 1024, true}})).ok());
  EXPECT_FALSE(check_part(ring, Translations({{1, 1024, true}}), 1000));
}

}  // namespace
}  // namespace tutti
