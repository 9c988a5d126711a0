#include "batch.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "random.hpp"
#include "trial.hpp"

namespace tutti::integration {
namespace {

using Trials = std::vector<std::unique_ptr<Trial>>;

/// All calls, in an order of this rank's own, but in the given order within each `order`.
std::vector<const Action*> shuffled(const Trials& trials, Random& random) {
  std::vector<int> slots;
  std::map<int, std::vector<const Action*>> queues;
  for (const auto& trial : trials)
    for (const Action& action : trial->actions()) {
      slots.push_back(action.order);
      queues[action.order].push_back(&action);
    }
  random.shuffle(slots);
  std::map<int, std::size_t> taken;
  std::vector<const Action*> actions;
  for (const int order : slots) actions.push_back(queues[order][taken[order]++]);
  return actions;
}

Status run_in_order(const Trials& trials) {
  for (const auto& trial : trials)
    for (const Action& action : trial->actions())
      if (Status done = action.run(); !done) return done;
  return {};
}

Status run_grouped(const Trials& trials, Random& random) {
  Group group;
  for (const Action* const action : shuffled(trials, random))
    if (Status issued = action->run(); !issued) return issued;
  return group.end();
}

Status finish(Work& work, Random& random) {
  switch (random.below(3)) {
    case 0:
      return work.wait();
    case 1:
      return work.wait(60);
    default:
      while (!work.test()) {
      }
      return work.wait();
  }
}

Status run_async(const Trials& trials, Random& random) {
  std::vector<Work> works;
  Status first;
  for (const Action* const action : shuffled(trials, random)) {
    Result<Work> work = action->submit();
    if (work) works.push_back(std::move(*work));
    if (!work && first) first = tl::unexpected(work.error());
  }
  random.shuffle(works);
  for (Work& work : works)
    if (Status done = finish(work, random); !done && first) first = done;
  return first;
}

}  // namespace

std::string run_batch(const std::vector<Case>& cases, Communicator& communicator, std::uint64_t seed) {
  Random random(hash(seed, communicator.rank()));
  Trials trials;
  for (const Case& one : cases) trials.push_back(std::make_unique<Trial>(one, communicator));
  const Mode mode = cases.front().mode;
  const Status done = mode == Mode::blocking ? run_in_order(trials)
                      : mode == Mode::group  ? run_grouped(trials, random)
                                             : run_async(trials, random);
  if (!done) {
    std::string text = done.error().to_string();
    for (const Case& one : cases) text += "\n    while running " + describe(one);
    return text;
  }
  for (const auto& trial : trials)
    if (const std::string difference = trial->difference(); !difference.empty())
      return difference + "\n    after " + describe(trial->what());
  return "";
}

}  // namespace tutti::integration
