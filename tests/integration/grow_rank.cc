// One rank of a job that loses ranks and takes in others. It creates its communicator as the launcher says, or joins
// one
// (--join), and then does what it is told by lines on standard input, to the newest communicator there is:
//   loop                             reduces until the next line comes, or a call fails
//   check                            every collective once, and a split
//   shrink
//   open                             makes an id ahead of grow: says it
//   waiting COUNT                    returns once so many newcomers wait at that id
//   grow COUNT AT_LEAST SECONDS [id|environment|after]   by invitation, or at the id of `open`, or as the launcher
//   says;
//                                    after: newcomers fill no numbers that are free
//   back                             to the communicator before the newest, which is dropped
//   drop                             all communicators but the newest
//   resources                        says threads and descriptors of this process
// It says what it goes through, a line each:
//   ready; id TEXT; shrunk|grown|joined SIZE RANK SECONDS; right; failed CODE PEER MESSAGE; resources THREADS
//   DESCRIPTORS
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "known_reduction.hpp"
#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

using Clock = std::chrono::steady_clock;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void say_failed(const Error& error) {
  say(fmt::format("failed {} {} {}", name_of(error.code), error.peer, error.to_string()));
}

bool line_waits() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

/// Unbuffered, so that line_waits() tells the truth.
std::optional<std::string> read_line() {
  std::string line;
  for (char c = 0; ::read(STDIN_FILENO, &c, 1) == 1;) {
    if (c == '\n') return line;
    line += c;
  }
  return std::nullopt;
}

/// Until one of the ranks has a line waiting.
Status reduce_until_told(Communicator& communicator) {
  integration::KnownReduction reduction(communicator, 1 << 16);
  for (int round = 0;; ++round) {
    const Result<bool> told = reduction.run(line_waits());
    if (!told) return tl::unexpected(told.error());
    if (round == 10) say("ready");
    if (*told) return {};
  }
}

/// Every collective once: what is known of the results holds for any size.
class Check {
 public:
  explicit Check(Communicator& communicator)
      : communicator_(communicator), rank_(communicator.rank()), size_(communicator.size()) {}

  Status run() {
    for (const std::size_t count : {std::size_t{1}, std::size_t{50021}})
      if (Status done = run(count); !done) return done;
    return split();
  }

 private:
  using Values = std::vector<int>;

  Status expect(const char* what, const Status& done, const Values& got, const Values& wanted) const {
    if (!done) return done;
    if (got == wanted) return {};
    return fail(ErrorCode::internal, fmt::format("{} is wrong on rank {}", what, rank_));
  }

  /// One block per rank, whose values `value` tells.
  template <typename Value>
  Values blocks(std::size_t count, Value value) const {
    Values all;
    for (int rank = 0; rank < size_; ++rank) all.insert(all.end(), count, value(rank));
    return all;
  }

  Status run(std::size_t count) {
    const auto type = DataType::int32;
    const auto times = static_cast<std::size_t>(size_);
    const int last = size_ - 1;
    const int sum = size_ * (size_ - 1) / 2;
    const Values own(count, rank_), none(count, -1);
    const Values each = blocks(count, [](int rank) { return rank; });
    const Values to_each = blocks(count, [&](int rank) { return 1000 * rank_ + rank; });
    const Values from_each = blocks(count, [&](int rank) { return 1000 * rank + rank_; });
    std::vector<Status> all;
    Values one = none, many(count * times, -1);
    const auto take = [&](const char* what, const Status& done, Values& got, const Values& wanted) {
      all.push_back(expect(what, done, got, wanted));
      got.assign(got.size(), -1);
    };
    take("all_reduce", communicator_.all_reduce(own.data(), one.data(), count, type, Operator::sum), one,
         Values(count, sum));
    take("reduce", communicator_.reduce(own.data(), one.data(), count, type, Operator::max, last), one,
         rank_ == last ? Values(count, last) : none);
    take("broadcast", communicator_.broadcast(own.data(), one.data(), count, type, last), one, Values(count, last));
    take("all_gather", communicator_.all_gather(own.data(), many.data(), count, type), many, each);
    take("reduce_scatter", communicator_.reduce_scatter(each.data(), one.data(), count, type, Operator::sum), one,
         Values(count, rank_ * size_));
    take("all_to_all", communicator_.all_to_all(to_each.data(), many.data(), count, type), many, from_each);
    take("gather", communicator_.gather(own.data(), many.data(), count, type, 0), many,
         rank_ == 0 ? each : Values(many.size(), -1));
    take("scatter", communicator_.scatter(each.data(), one.data(), count, type, 0), one, own);
    all.push_back(communicator_.barrier());
    Group group;
    all.push_back(communicator_.send(own.data(), count, type, (rank_ + 1) % size_));
    all.push_back(communicator_.recv(one.data(), count, type, (rank_ + size_ - 1) % size_));
    take("send and recv", group.end(), one, Values(count, (rank_ + size_ - 1) % size_));
    for (const Status& done : all)
      if (!done) return done;
    return {};
  }

  Status split() {
    auto part = communicator_.split(rank_ % 2);
    if (!part) return tl::unexpected(part.error());
    Values one{rank_}, got{-1};
    int sum = 0;
    for (int rank = rank_ % 2; rank < size_; rank += 2) sum += rank;
    return expect("all_reduce of a part",
                  (*part)->all_reduce(one.data(), got.data(), 1, DataType::int32, Operator::sum), got, {sum});
  }

  Communicator& communicator_;
  int rank_;
  int size_;
};

class Rank {
 public:
  /// With --join, and a text: the id; "environment": where the launcher says.
  bool begin(const std::optional<std::string>& join, int wish) {
    const auto started = Clock::now();
    if (!join) return keep(Communicator::create_from_environment(), nullptr, started);
    if (*join == "environment") return keep(Communicator::join_from_environment(), "joined", started);
    const auto id = UniqueId::from_string(*join);
    if (!id) return report(tl::unexpected(id.error()));
    return keep(Communicator::join(*id, wish), "joined", started);
  }

  void obey(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    const auto started = Clock::now();
    if (word == "loop") right(reduce_until_told(now()));
    if (word == "check") right(Check(now()).run());
    if (word == "shrink") keep(now().shrink(), "shrunk", started);
    if (word == "open") open();
    if (word == "waiting") wait_for_newcomers(words);
    if (word == "grow") grow(words);
    if (word == "back") all_.pop_back();
    if (word == "drop") all_.erase(all_.begin(), all_.end() - 1);
    if (word == "resources") count_resources();
  }

 private:
  Communicator& now() { return all_.back(); }

  bool report(const Status& done) {
    if (!done) say_failed(done.error());
    return done.has_value();
  }
  void right(const Status& done) {
    if (report(done)) say("right");
  }

  bool keep(Result<Communicator> made, const char* word, Clock::time_point started) {
    if (!made) return report(tl::unexpected(made.error()));
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    all_.push_back(std::move(*made));
    if (word != nullptr) say(fmt::format("{} {} {} {:.3f}", word, now().size(), now().rank(), seconds));
    return true;
  }

  void open() {
    const auto id = UniqueId::create();
    if (!id) return say_failed(id.error());
    id_ = *id;
    say("id " + id->to_string());
  }

  void wait_for_newcomers(std::istringstream& words) {
    int count = 0;
    words >> count;
    while (id_->waiting() < count) ::usleep(1000);
    say("ready");
  }

  void grow(std::istringstream& words) {
    GrowOptions options;
    std::string how;
    words >> options.newcomers >> options.at_least >> options.seconds >> how;
    if (how == "id") options.id = id_;
    options.fill = how != "after";
    if (how.empty() || how == "after") options.invite = [](const UniqueId& id) { say("id " + id.to_string()); };
    const auto started = Clock::now();
    keep(now().grow(options), "grown", started);
  }

  void count_resources() {
    const auto count = [](const char* folder) {
      return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
    };
    say(fmt::format("resources {} {}", count("/proc/self/task"), count("/proc/self/fd")));
  }

  std::vector<Communicator> all_;
  std::optional<UniqueId> id_;
};

int run(int argc, char** argv) {
  std::optional<std::string> join;
  int wish = -1;
  CLI::App app("One rank of a job that loses ranks and takes in others.");
  app.add_option("--join", join, "an id, or 'environment'");
  app.add_option("--wish", wish, "the rank wished for");
  CLI11_PARSE(app, argc, argv);
  Rank rank;
  if (!rank.begin(join, wish)) return 1;
  say("ready");
  while (const auto line = read_line()) rank.obey(*line);
  return 0;
}

}  // namespace
}  // namespace tutti::integration

int main(int argc, char** argv) { return tutti::integration::run(argc, argv); }
