#include "cli/bench/bench_run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "cli/bench/bench_measure.hpp"
#include "cli/bench/bench_report.hpp"
#include "cli/doctor/doctor.hpp"
#include "documents/text_file.hpp"

namespace tutti::cli {
namespace {

/// What ranks tell rank 0 about themselves, in a form that travels.
struct RankDescription {
  int pid = 0;
  char host[64] = {};
  char device[64] = {};
};

std::string cpu_model() {
  const std::string text = read_file("/proc/cpuinfo");
  const std::size_t found = text.find("model name");
  const std::size_t colon = found == std::string::npos ? found : text.find(':', found);
  if (colon == std::string::npos) return "CPU";
  return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

Result<std::vector<RankInfo>> introduce(Communicator& communicator) {
  RankDescription mine;
  mine.pid = ::getpid();
  ::gethostname(mine.host, sizeof mine.host - 1);
  std::strncpy(mine.device, cpu_model().c_str(), sizeof mine.device - 1);
  std::vector<RankDescription> all(static_cast<std::size_t>(communicator.size()));
  const auto gathered = communicator.all_gather(&mine, all.data(), sizeof mine, DataType::uint8);
  if (!gathered) return tl::unexpected(gathered.error());
  std::vector<RankInfo> ranks;
  for (const RankDescription& each : all)
    ranks.push_back({static_cast<int>(ranks.size()), each.pid, each.host, each.device});
  return ranks;
}

class BenchRun {
 public:
  BenchRun(Communicator& communicator, const BenchOptions& options, const BenchCase& bench_case,
           const std::vector<std::string>& arguments)
      : communicator_(communicator), options_(options), case_(bench_case), rank_(communicator, options) {
    if (communicator.rank() == 0) report_.emplace(options, bench_case.name, arguments);
  }

  Status run() {
    auto ranks = introduce(communicator_);
    if (!ranks) return tl::unexpected(ranks.error());
    if (report_) report_->begin(*ranks);
    const auto done = run_types();
    if (report_ && !done) fmt::print("\n");
    if (report_) report_->end(done ? std::vector<std::string>{} : std::vector{done.error().to_string()});
    return done;
  }

  std::optional<BenchReport>& report() { return report_; }
  bool all_right() const { return wrong_ == 0; }

 private:
  Status run_types() {
    const auto ops = case_.reduces ? operators_named(options_.op) : std::vector<NamedOperator>{{"none", Operator::sum}};
    const int first = !case_.rooted ? -1 : options_.root < 0 ? 0 : options_.root;
    const int last = case_.rooted && options_.root < 0 ? communicator_.size() - 1 : first;
    for (const NamedType& type : types_named(options_.type))
      for (const NamedOperator& op : ops)
        for (int root = first; root <= last; ++root)
          if (auto done = run_sizes(type, op, root); !done) return done;
    return {};
  }

  Status run_sizes(const NamedType& type, const NamedOperator& op, int root) {
    for (const std::size_t bytes : case_.moves_data ? options_.sizes() : std::vector<std::size_t>{0}) {
      BenchPoint point{
          &case_, case_.count_of(bytes, size_of(type.type), communicator_.size()), type.type, op.op, std::max(0, root),
          false};
      const Elements elements = case_.elements(point.count, communicator_.size());
      if (report_)
        report_->begin_row({std::max(elements.send, elements.recv) * size_of(type.type), point.count,
                            case_.moves_data ? type.name : "none", op.name, root});
      for (const bool in_place : {false, true}) {
        point.in_place = in_place;
        if (auto done = run_half(point); !done) return done;
      }
      if (report_) report_->end_row();
    }
    return {};
  }

  Status run_half(const BenchPoint& point) {
    std::optional<Measurement> measured;
    if (!point.in_place || case_.in_place) {
      auto result = rank_.measure(point);
      if (!result) return tl::unexpected(result.error());
      measured = *result;
      wrong_ += result->wrong;
    }
    if (report_) report_->half(measured, point.in_place);
    return {};
  }

  Communicator& communicator_;
  const BenchOptions& options_;
  const BenchCase& case_;
  BenchRank rank_;
  std::optional<BenchReport> report_;
  std::int64_t wrong_ = 0;
};

bool write_json(const std::string& path, const nlohmann::ordered_json& document) {
  const Status written = replace_text(path, document.dump(2) + "\n");
  if (!written) fmt::print(stderr, "tutti bench: {}\n", written.error().message);
  return written.has_value();
}

}  // namespace

int run_bench(Communicator& communicator, const BenchOptions& options, const std::vector<std::string>& arguments) {
  nlohmann::ordered_json documents = nlohmann::ordered_json::array();
  int status = 0;
  for (const BenchCase& each : bench_cases()) {
    if (options.collective != "all" && options.collective != each.name) continue;
    BenchRun run(communicator, options, each, arguments);
    const auto done = run.run();
    if (!done) fmt::print(stderr, "tutti bench: {}\n", done.error().to_string());
    if (!done || !run.all_right()) status = 1;
    if (run.report()) documents.push_back(std::move(run.report()->json()));
    if (!done) break;
  }
  if (communicator.rank() != 0 || options.json_file.empty()) return status;
  const bool written = write_json(options.json_file, options.collective == "all" ? documents : documents.front());
  return written ? status : 1;
}

}  // namespace tutti::cli
