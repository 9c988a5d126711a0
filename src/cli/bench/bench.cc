#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/bench/bench_case.hpp"
#include "cli/bench/bench_options.hpp"
#include "cli/bench/bench_run.hpp"
#include "cli/bench/rank_threads.hpp"
#include "cli/support/command.hpp"
#include "cli/support/launch.hpp"
#include "cli/support/parse.hpp"
#include "communicator/install.hpp"
#include "program/check/check.hpp"
#include "program/formats/format.hpp"
#include "tutti/communicator.hpp"

namespace tutti::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  tutti bench all_reduce -b 8 -e 64M -f 4
  tutti bench all_gather -N 8 -b 1K -e 1M -f 2 -d half -J all_gather.json
  tutti bench all_reduce -b 1M -e 256M -f 2 --memory registered
  tutti bench all_reduce -N 4 --program examples/programs/ring_all_reduce_4.xml
  tutti bench reduce -d all -o all -r -1 -b 4K -e 4K
  mpirun -n 4 tutti bench all_reduce -b 8 -e 1M -f 8

The table, its units and factors are those of nccl-tests. Every timed call finds its send buffer rewritten. Ranks that
a launcher (tutti run, torchrun, srun, mpirun) has started are used as they are.)";

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names = {"all"};
  for (const BenchCase& each : bench_cases()) names.emplace_back(each.name);
  return names;
}

template <typename Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names = {"all"};
  for (const Named& each : all) names.emplace_back(each.name);
  return names;
}

// As CLI11 wants a check: empty when all is well.
std::string one_of(const std::string& value, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), value) != names.end()) return {};
  return fmt::format("'{}' is not known; expected one of {}", value, fmt::join(names, ", "));
}

void add_size(CLI::App* command, const std::string& flags, std::size_t& target, const std::string& help) {
  command->add_option_function<std::string>(
      flags,
      [&target, flags](const std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes) throw CLI::ValidationError(flags, bytes.error().message);
        target = *bytes;
      },
      help + " (K, M, G: powers of 1024)");
}

void validate(const BenchOptions& options) {
  const auto refuse = [](const std::string& text) { throw CLI::ValidationError("tutti bench", text); };
  if (options.min_bytes > options.max_bytes)
    refuse(fmt::format("-b {} is above -e {}", options.min_bytes, options.max_bytes));
  if (options.step_factor <= 1 && options.step_bytes == 0) refuse("-i 0 goes nowhere; expected a step above 0");
}

/// Installs the program of a file, once the checker has passed it; nothing where there is no file.
Status install_file(Communicator& communicator, const std::string& path) {
  if (path.empty()) return {};
  Result<Program> program = load_program(path);
  if (!program) return tl::unexpected(program.error());
  if (const CheckReport report = check(*program); !report.ok())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", path, report.violation->to_string()));
  if (program->shape.ranks != communicator.size())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: a program of {} ranks, and there are {}", path,
                                                         program->shape.ranks, communicator.size()));
  return install_program(communicator, std::move(*program));
}

int run_as_rank(const BenchOptions& options, const Arguments& arguments) {
  Options settings = Options::from_environment();
  settings.timeout = options.timeout;
  auto communicator = Communicator::create_from_environment(settings);
  if (!communicator) return report_error("bench", communicator.error().to_string());
  if (const Status installed = install_file(*communicator, options.program_file); !installed)
    return report_error("bench", installed.error().message, kBadUsage);
  if (options.root >= communicator->size()) {
    fmt::print(stderr, "tutti bench: -r {} is no rank; there are {}\n", options.root, communicator->size());
    return kBadUsage;
  }
  return run_bench(*communicator, options, arguments);
}

int run_threads(const BenchOptions& options, const Arguments& arguments) {
  Options settings = Options::from_environment();
  settings.timeout = options.timeout;
  auto communicators = Communicator::create_threads(options.threads, settings);
  if (!communicators) return report_error("bench", communicators.error().to_string());
  for (Communicator& each : *communicators)
    if (const Status installed = install_file(each, options.program_file); !installed)
      return report_error("bench", installed.error().message, kBadUsage);
  std::vector<int> statuses(communicators->size());
  const Status ran = run_ranks(*communicators, [&](std::size_t rank) {
    statuses[rank] = run_bench((*communicators)[rank], options, arguments);
  });
  if (!ran) return report_error("bench", ran.error().message);
  return *std::max_element(statuses.begin(), statuses.end());
}

int start(const BenchOptions& options, const Arguments& arguments) {
  const int ranks = options.threads > 0 ? options.threads : options.ranks;
  if (ranks > 0 && options.root >= ranks)
    throw CLI::ValidationError("tutti bench", fmt::format("-r {} is no rank; there are {}", options.root, ranks));
  if (options.threads > 0) return run_threads(options, arguments);
  return started_by_launcher() ? run_as_rank(options, arguments) : launch_self("tutti bench", options.ranks, arguments);
}

void add_options(CLI::App* command, BenchOptions& options) {
  command->add_option("collective", options.collective, fmt::format("{}", fmt::join(names_of_cases(), ", ")))
      ->required()
      ->check([](const std::string& value) { return one_of(value, names_of_cases()); });
  command->add_option("-N,--ranks", options.ranks, "processes to start (one per core, at least two)")
      ->check(CLI::Range(1, 4096));
  command->add_option("-t,--nthreads", options.threads, "ranks as threads of one process")->check(CLI::Range(1, 1024));
  add_size(command, "-b,--minbytes", options.min_bytes, "smallest size, 32M unless given");
  add_size(command, "-e,--maxbytes", options.max_bytes, "largest size, 32M unless given");
  add_size(command, "-i,--stepbytes", options.step_bytes, "added from size to size, 1M unless given");
  command->add_option("-f,--stepfactor", options.step_factor, "multiplied from size to size instead")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("-n,--iters", options.iterations, "timed calls per size; unless given, as many as take 0.2 s")
      ->check(CLI::Range(1, 100'000'000));
  command
      ->add_option("-w,--warmup_iters", options.warmups,
                   "calls before them; unless given, 1 with -n, else until calls get no faster")
      ->check(CLI::Range(0, 100'000'000));
  command->add_option("-c,--check", options.checks, "verified calls per size; 0: none")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_option("-d,--datatype", options.type, fmt::format("{}", fmt::join(names_of(bench_types()), ", ")))
      ->check([](const std::string& value) { return one_of(value, names_of(bench_types())); })
      ->capture_default_str();
  command->add_option("-o,--op", options.op, fmt::format("{}", fmt::join(names_of(bench_operators()), ", ")))
      ->check([](const std::string& value) { return one_of(value, names_of(bench_operators())); })
      ->capture_default_str();
  command->add_option("-r,--root", options.root, "root rank; -1: each in turn")
      ->check(CLI::Range(-1, 4095))
      ->capture_default_str();
  command->add_option("-a,--average", options.average, "time over ranks: 0 rank 0, 1 average, 2 minimum, 3 maximum")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  command->add_option("--program", options.program_file, "run this program file, proven first, where it fits");
  command->add_option("-J,--output_file", options.json_file, "write nccl-tests' JSON there");
  command->add_option("-T,--timeout", options.timeout, "seconds a call may take; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

}  // namespace

void add_bench(CLI::App& app, const Arguments& arguments, int& status) {
  auto* command = app.add_subcommand("bench", "Measure a collective over sizes, with nccl-tests' options and table");
  auto options = std::make_shared<BenchOptions>();
  auto memory = std::make_shared<std::string>("ordinary");
  command->footer(kExamples);
  add_options(command, *options);
  command->add_option("--memory", *memory, "buffers: ordinary, or registered (of tutti::allocate)")
      ->check([](const std::string& value) {
        return one_of(value, {"ordinary", "registered"});
      })
      ->capture_default_str();
  command->callback([options, memory, arguments, command, &status] {
    options->registered = *memory == "registered";
    // As nccl-tests: a smallest size alone means that one size and no other.
    if (command->count("-e") == 0) options->max_bytes = std::max(options->max_bytes, options->min_bytes);
    if (command->count("-b") == 0) options->min_bytes = std::min(options->max_bytes, options->min_bytes);
    validate(*options);
    status = start(*options, arguments);
  });
}

}  // namespace tutti::cli
