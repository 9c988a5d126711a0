#include <fmt/core.h>
#include <hwloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/settings.hpp"
#include "cli/doctor/doctor.hpp"
#include "cli/doctor/sibling.hpp"
#include "cli/support/parse.hpp"
#include "gpu_health/gpu_watch.hpp"
#include "net/interfaces.hpp"

namespace tutti::cli {
namespace {

using CheckMark = DoctorFinding::CheckMark;
namespace fs = std::filesystem;

std::optional<double> cgroup_quota() {
  const std::string groups = read_file("/proc/self/cgroup");
  if (const auto path = parse_cgroup_path(groups, "")) {
    // Inside a container the group's own folder is the mount's root.
    for (const std::string& folder : {"/sys/fs/cgroup" + *path, std::string("/sys/fs/cgroup")})
      if (const auto quota = parse_cpu_max(read_line(folder + "/cpu.max"))) return quota;
  }
  if (const auto path = parse_cgroup_path(groups, "cpu")) {
    for (const std::string& folder : {"/sys/fs/cgroup/cpu" + *path, std::string("/sys/fs/cgroup/cpu")})
      if (const auto quota =
              parse_cfs_quota(read_line(folder + "/cpu.cfs_quota_us"), read_line(folder + "/cpu.cfs_period_us")))
        return quota;
  }
  return std::nullopt;
}

CoreFacts core_facts() {
  CoreFacts facts;
  facts.online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  facts.allowed = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : facts.online;
  facts.quota = cgroup_quota();
  return facts;
}

// "1 package, 2 cores, 1 NUMA node, L3 32 MB"
DoctorFinding topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    return {CheckMark::warn, "topology", "hwloc cannot start", "check /sys is mounted"};
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0)
    return {CheckMark::warn, "topology", "hwloc finds nothing", "check /sys is mounted"};
  const auto count = [&](hwloc_obj_type_t type) { return std::max(0, hwloc_get_nbobjs_by_type(raw, type)); };
  const int nodes = count(HWLOC_OBJ_NUMANODE);
  std::string text = fmt::format("{} package{}, {} cores, {} threads, {} NUMA node{}", count(HWLOC_OBJ_PACKAGE),
                                 count(HWLOC_OBJ_PACKAGE) == 1 ? "" : "s", count(HWLOC_OBJ_CORE), count(HWLOC_OBJ_PU),
                                 nodes, nodes == 1 ? "" : "s");
  for (const auto& [name, type] : {std::pair("L2", HWLOC_OBJ_L2CACHE), std::pair("L3", HWLOC_OBJ_L3CACHE)})
    if (const hwloc_obj_t cache = hwloc_get_obj_by_type(raw, type, 0); cache != nullptr)
      text += fmt::format(", {} x {} of {}", count(type), name, show_bytes(cache->attr->cache.size));
  return {CheckMark::ok, "topology", text, ""};
}

std::uint64_t limit_of(rlim_t value) { return value == RLIM_INFINITY ? kUnlimited : value; }

DoctorFinding memfd() {
  if (const int error = try_memfd(); error != 0)
    return {CheckMark::bad, "anonymous shared memory", fmt::format("memfd_create fails ({})", std::strerror(error)),
            "allow memfd_create in the seccomp profile; TUTTI_SHM=0 goes without shared memory"};
  return {CheckMark::ok, "anonymous shared memory", "memfd works", ""};
}

std::vector<fs::path> folders_of(const char* path) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<DoctorFinding> rdma() {
  std::vector<DoctorFinding> findings;
  for (const fs::path& device : folders_of("/sys/class/infiniband"))
    for (const fs::path& port : folders_of((device / "ports").c_str())) {
      const std::string state = parse_rdma_state(read_line(port / "state"));
      DoctorFinding finding{CheckMark::ok, "RDMA " + device.filename().string(),
                            fmt::format("port {}: {}, {:g} Gb/s", port.filename().string(), state,
                                        parse_rdma_rate(read_line(port / "rate"))),
                            ""};
      if (state != "ACTIVE") {
        finding.mark = CheckMark::warn;
        finding.mend = "check the cable and the switch port; `ibstat` and `rdma link` say more";
      }
      findings.push_back(finding);
    }
  if (findings.empty()) findings.push_back({CheckMark::ok, "RDMA", "no device: TCP between hosts", ""});
  return findings;
}

std::string show_speed(int megabits) {
  if (megabits <= 0) return "speed unknown";
  return megabits >= 1000 ? fmt::format("{:g} Gb/s", megabits / 1000.0) : fmt::format("{} Mb/s", megabits);
}

std::vector<DoctorFinding> network_interfaces() {
  const auto all = interfaces();
  const auto chosen = chosen_interfaces();
  std::vector<DoctorFinding> findings;
  if (!chosen)
    findings.push_back({CheckMark::bad, "interfaces", chosen.error().message, "set TUTTI_INTERFACES to one of them"});
  for (const Interface& each : all.value_or(std::vector<Interface>{})) {
    const auto same = [&](const Interface& other) { return other.name == each.name; };
    const bool used = chosen && std::any_of(chosen->begin(), chosen->end(), same);
    if (!used && (each.loopback || !each.up || each.addresses.empty())) continue;
    std::string text = show_speed(each.speed);
    for (const SocketAddress& address : each.addresses) text += ", " + address.host();
    text += used ? " (used)" : " (not used)";
    findings.push_back({CheckMark::ok, "interface " + each.name, text, ""});
    if (used && each.loopback) {
      findings.back().mark = CheckMark::warn;
      findings.back().mend = "other hosts cannot reach loopback: bring a network interface up";
    }
  }
  return findings;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<DoctorFinding> examine_cpu() {
  const auto flags = parse_cpu_flags(read_file("/proc/cpuinfo"));
  utsname kernel{};
  ::uname(&kernel);
  return {judge_cores(core_facts()), topology(), judge_isa(flags),
          judge_clock(read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"), flags),
          judge_kernel(kernel.release)};
}

std::vector<DoctorFinding> examine_memory() {
  const std::string pages = "/sys/kernel/mm/transparent_hugepage/";
  std::vector<DoctorFinding> findings = {memfd()};
  for (DoctorFinding& finding : judge_reach(try_sibling())) findings.push_back(std::move(finding));
  struct statvfs shm {};
  const bool mounted = ::statvfs("/dev/shm", &shm) == 0;
  findings.push_back(
      judge_dev_shm(mounted ? std::optional<std::uint64_t>(std::uint64_t{shm.f_bavail} * shm.f_frsize) : std::nullopt));
  findings.push_back(
      judge_huge_pages(parse_choice(read_line(pages + "enabled")), parse_choice(read_line(pages + "shmem_enabled"))));
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  findings.push_back(judge_memlock(limit_of(limit.rlim_cur), !folders_of("/sys/class/infiniband").empty()));
  ::getrlimit(RLIMIT_NOFILE, &limit);
  findings.push_back(judge_open_files(limit_of(limit.rlim_cur), limit_of(limit.rlim_max)));
  return findings;
}

std::vector<DoctorFinding> examine_network() {
  std::vector<DoctorFinding> findings = network_interfaces();
  findings.push_back(judge_tcp_buffers(parse_tcp_buffer_limit(read_line("/proc/sys/net/ipv4/tcp_rmem")),
                                       parse_tcp_buffer_limit(read_line("/proc/sys/net/ipv4/tcp_wmem"))));
  for (DoctorFinding& finding : rdma()) findings.push_back(std::move(finding));
  return findings;
}

std::vector<DoctorFinding> examine_gpus() {
  constexpr double kPatience = 10;  // seconds; a driver that nobody uses starts first
  const gpu::GpuLook look = gpu::GpuWatch(settings().nvml, kPatience).look();
  std::vector<DoctorFinding> findings;
  if (!look.problem.empty())
    findings.push_back({CheckMark::warn, "GPUs", look.problem, "`nvidia-smi` says whether the driver works"});
  for (const gpu::GpuHealth& gpu : look.gpus) findings.push_back(judge_gpu(gpu));
  if (findings.empty())
    findings.push_back({CheckMark::ok, "GPUs", look.has_nvml ? "none" : "no NVML: no driver of NVIDIA's", ""});
  return findings;
}

}  // namespace tutti::cli
