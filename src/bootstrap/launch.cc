#include "bootstrap/launch.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/settings.hpp"
#include "bootstrap/nodelist.hpp"

namespace tutti {
namespace {

constexpr int kPortsTried = 8;

// One launcher's variables, read one by one; the first that is missing or wrong is kept as the error.
class Variables {
 public:
  Variables(const Environment& environment, std::string source) : environment_(environment) {
    launch_.source = std::move(source);
    launch_.secret = text("TUTTI_SECRET");
  }

  bool has(const std::string& name) const { return !text(name).empty(); }
  std::string text(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? std::string() : found->second;
  }

  std::string need(const std::string& name) {
    if (!has(name)) report(fmt::format("{} is not set, though other variables of a launch by {} are", name, source()));
    return text(name);
  }
  int need_number(const std::string& name) {
    const std::string value = need(name);
    return value.empty() ? 0 : number(name, value).value_or(0);
  }
  int number_or(const std::string& name, int fallback) {
    return has(name) ? number(name, text(name)).value_or(fallback) : fallback;
  }
  std::uint16_t port(const std::string& name) {
    const int value = need_number(name);
    if (value > 65535) report(fmt::format("{}={} is not a port", name, value));
    return static_cast<std::uint16_t>(value);
  }

  void report(std::string message, ErrorCode code = ErrorCode::invalid_argument) {
    if (!error_) error_ = fail(code, std::move(message)).value();
  }

  void rank_and_size(const std::string& rank_name, const std::string& size_name) {
    launch_.rank = need_number(rank_name);
    launch_.size = need_number(size_name);
    if (error_) return;
    if (launch_.size < 1) report(fmt::format("{}={}: expected at least 1", size_name, launch_.size));
    if (launch_.rank >= launch_.size)
      report(fmt::format("{}={} is not below {}={}", rank_name, launch_.rank, size_name, launch_.size));
  }
  void local(const std::string& rank_name, const std::string& size_name) {
    launch_.local_rank = number_or(rank_name, -1);
    launch_.local_size = number_or(size_name, -1);
  }

  bool one_host() const { return launch_.size == 1 || launch_.local_size == launch_.size; }
  void meet_at(const std::string& host, int first_port, int ports) {
    for (int i = 0; i < ports && first_port + i <= 65535; ++i)
      launch_.endpoints.push_back({host, static_cast<std::uint16_t>(first_port + i)});
  }
  // TUTTI_ADDRESS and TUTTI_PORT go before what a launcher says. True where the former settles it.
  bool told_where_to_meet() {
    if (!has("TUTTI_ADDRESS")) return false;
    auto where = parse_host_port(text("TUTTI_ADDRESS"));
    if (!where) report("TUTTI_ADDRESS: " + where.error().message);
    if (where) launch_.endpoints = {*where};
    return true;
  }
  void meet_by_master() {
    if (told_where_to_meet()) return;
    if (launch_.size == 1) return meet_at("127.0.0.1", 0, 1);
    const std::string host = one_host() ? "127.0.0.1" : need("MASTER_ADDR");
    if (has("TUTTI_PORT")) return meet_at(host, port("TUTTI_PORT"), 1);
    const std::uint16_t master_port = port("MASTER_PORT");
    meet_at(host, master_port + 1, kPortsTried);
    if (launch_.job.empty()) launch_.job = fmt::format("port {}", master_port);
  }
  // Ports every rank can work out for itself, below those the kernel hands out.
  void meet_by_job(const std::string& host) {
    if (has("TUTTI_PORT")) return meet_at(host, port("TUTTI_PORT"), 1);
    std::uint32_t hash = 2166136261u;
    for (const char letter : launch_.job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
    meet_at(host, 20000 + static_cast<int>(hash % 12000), kPortsTried);
  }

  const std::string& source() const { return launch_.source; }
  LaunchInfo& launch() { return launch_; }

  Result<LaunchInfo> finish() {
    check_secret();
    if (error_) return tl::unexpected(*error_);
    return launch_;
  }

 private:
  std::optional<int> number(const std::string& name, const std::string& value) {
    int parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error == std::errc() && end == value.data() + value.size() && parsed >= 0) return parsed;
    report(fmt::format("{}='{}' is not a number", name, value));
    return std::nullopt;
  }

  void check_secret() {
    const std::string insecure = text("TUTTI_INSECURE");
    const bool allowed = insecure == "1" || insecure == "true" || insecure == "on" || insecure == "yes";
    if (launch_.meeting != Meeting::endpoints || !launch_.secret.empty() || allowed) return;
    for (const HostPort& endpoint : launch_.endpoints) {
      const bool v6 = endpoint.host.find(':') != std::string::npos;
      const auto numeric = SocketAddress::parse(v6 ? fmt::format("[{}]:1", endpoint.host) : endpoint.host + ":1");
      // What a name means is known only when it is resolved, by join.
      if (numeric && !numeric->is_loopback())
        report(fmt::format("ranks would meet at {}, beyond loopback, without a secret: set TUTTI_SECRET or "
                           "TUTTI_SECRET_FILE to the same secret on all ranks, or TUTTI_INSECURE=1 to do without",
                           endpoint.host),
               ErrorCode::refused);
    }
  }

  const Environment& environment_;
  LaunchInfo launch_;
  std::optional<Error> error_;
};

Result<LaunchInfo> by_tutti(const Environment& environment) {
  Variables variables(environment, "tutti run");
  variables.rank_and_size("TUTTI_RANK", "TUTTI_SIZE");
  variables.local("TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE");
  LaunchInfo& launch = variables.launch();
  launch.unique_id = variables.text("TUTTI_UNIQUE_ID");
  if (!launch.unique_id.empty()) {
    launch.meeting = Meeting::unique_id;
  } else if (launch.size == 1) {
    variables.meet_at("127.0.0.1", 0, 1);
  } else {
    variables.need("TUTTI_ADDRESS");
    variables.told_where_to_meet();
  }
  return variables.finish();
}

Result<LaunchInfo> by_torchrun(const Environment& environment) {
  Variables variables(environment, "torchrun");
  variables.rank_and_size("RANK", "WORLD_SIZE");
  variables.local("LOCAL_RANK", "LOCAL_WORLD_SIZE");
  variables.launch().job = fmt::format("torchrun {} {}", variables.text("TORCHELASTIC_RUN_ID"),
                                       variables.text("TORCHELASTIC_RESTART_COUNT"));
  variables.meet_by_master();
  return variables.finish();
}

Result<LaunchInfo> by_open_mpi(const Environment& environment) {
  Variables variables(environment, "openmpi");
  variables.rank_and_size("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  variables.local("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  LaunchInfo& launch = variables.launch();
  launch.job =
      "openmpi " + variables.text(variables.has("PMIX_NAMESPACE") ? "PMIX_NAMESPACE" : "OMPI_MCA_ess_base_jobid");
  if (variables.told_where_to_meet()) return variables.finish();
  const bool through_pmix = variables.has("PMIX_NAMESPACE") && variables.has("PMIX_RANK");
  if (through_pmix) launch.meeting = Meeting::pmix;
  if (variables.one_host())
    variables.meet_by_job("127.0.0.1");
  else if (!through_pmix || variables.has("MASTER_ADDR"))
    variables.meet_by_master();
  return variables.finish();
}

Result<LaunchInfo> by_hydra(const Environment& environment) {
  Variables variables(environment, "hydra");
  variables.rank_and_size("PMI_RANK", "PMI_SIZE");
  variables.local("MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  if (variables.told_where_to_meet()) return variables.finish();
  if (variables.has("PMI_FD")) {
    variables.launch().meeting = Meeting::pmi;
    variables.launch().pmi_descriptor = variables.need_number("PMI_FD");
  } else {
    variables.meet_by_master();
  }
  return variables.finish();
}

Result<LaunchInfo> by_hand(const Environment& environment) {
  Variables variables(environment, "manual");
  variables.rank_and_size("RANK", "WORLD_SIZE");
  variables.local("LOCAL_RANK", "LOCAL_WORLD_SIZE");
  variables.meet_by_master();
  return variables.finish();
}

void meet_on_first_node(Variables& variables) {
  if (variables.one_host() || variables.number_or("SLURM_STEP_NUM_NODES", 0) == 1)
    return variables.meet_by_job("127.0.0.1");
  if (variables.has("MASTER_ADDR")) return variables.meet_by_job(variables.text("MASTER_ADDR"));
  const std::string list = variables.has("SLURM_STEP_NODELIST") ? variables.text("SLURM_STEP_NODELIST")
                                                                : variables.need("SLURM_JOB_NODELIST");
  if (list.empty()) return;
  const auto nodes = expand_nodelist(list);
  if (!nodes) return variables.report(nodes.error().message);
  variables.meet_by_job(nodes->front());
}

Result<LaunchInfo> by_slurm(const Environment& environment) {
  Variables variables(environment, "slurm");
  const bool step = variables.has("SLURM_STEP_NUM_TASKS");
  variables.rank_and_size("SLURM_PROCID", step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  LaunchInfo& launch = variables.launch();
  launch.local_rank = variables.number_or("SLURM_LOCALID", -1);
  const auto node = static_cast<std::size_t>(variables.number_or("SLURM_NODEID", 0));
  const auto tasks = expand_tasks_per_node(variables.text("SLURM_STEP_TASKS_PER_NODE"));
  if (tasks && node < tasks->size()) launch.local_size = (*tasks)[node];
  launch.job = fmt::format("slurm {}.{}", variables.need("SLURM_JOB_ID"), variables.need("SLURM_STEP_ID"));
  if (variables.told_where_to_meet()) return variables.finish();
  if (variables.has("PMIX_NAMESPACE") && variables.has("PMIX_RANK")) launch.meeting = Meeting::pmix;
  meet_on_first_node(variables);
  return variables.finish();
}

Result<LaunchInfo> by_kubernetes(const Environment& environment) {
  Variables variables(environment, "kubernetes");
  variables.rank_and_size("JOB_COMPLETION_INDEX", variables.has("TUTTI_SIZE") ? "TUTTI_SIZE" : "WORLD_SIZE");
  variables.meet_by_master();
  return variables.finish();
}

bool is_set(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

}  // namespace

Result<LaunchInfo> launch_info(const Environment& environment) {
  const auto set = [&](const char* name) { return is_set(environment, name); };
  const bool indexed = set("JOB_COMPLETION_INDEX");
  const bool in_slurm_step = set("SLURM_PROCID") && set("SLURM_STEP_ID");
  // Slurm's own PMI-2 also sets PMI_RANK; Hydra's proxies, started by srun, pass SLURM_PROCID on.
  const bool by_pmi = set("PMI_RANK") && (set("MPI_LOCALNRANKS") || !in_slurm_step);
  if (set("TUTTI_RANK") || set("TUTTI_UNIQUE_ID") || (set("TUTTI_SIZE") && !indexed)) return by_tutti(environment);
  if (set("TORCHELASTIC_RUN_ID")) return by_torchrun(environment);
  if (set("OMPI_COMM_WORLD_RANK")) return by_open_mpi(environment);
  if (by_pmi) return by_hydra(environment);
  if (set("RANK")) return by_hand(environment);
  if (in_slurm_step) return by_slurm(environment);
  if (indexed) return by_kubernetes(environment);
  if (set("TUTTI_ADDRESS")) return by_tutti(environment);
  if (set("WORLD_SIZE")) return by_hand(environment);
  return fail(ErrorCode::unsupported,
              "no launcher has said which rank this is: start with tutti run, torchrun, mpirun or srun, or set "
              "TUTTI_RANK, TUTTI_SIZE and TUTTI_ADDRESS=host:port");
}

Result<LaunchInfo> from_environment() {
  // Whoever named a file wants a secret: without it the job would run for anybody to join.
  if (const Status secret = secret_status(); !secret) return tl::unexpected(secret.error());
  Environment environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  if (!settings().secret.empty()) environment["TUTTI_SECRET"] = settings().secret;
  return launch_info(environment);
}

}  // namespace tutti
