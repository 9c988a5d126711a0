#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "cli/doctor/doctor.hpp"
#include "cli/support/parse.hpp"

namespace tutti::cli {
namespace {

using CheckMark = DoctorFinding::CheckMark;

bool has(const std::vector<std::string>& flags, std::string_view flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

std::string show_limit(std::uint64_t bytes) { return bytes == kUnlimited ? "unlimited" : show_bytes(bytes); }

}  // namespace

// A rank needs a core of its own to spin on; its process's progress thread sleeps while callers wait by themselves.
DoctorFinding judge_cores(const CoreFacts& facts) {
  DoctorFinding finding{CheckMark::ok, "cores",
                        fmt::format("{} online, {} for this process", facts.online, facts.allowed), ""};
  if (facts.quota) finding.text += fmt::format(", quota of {:g}", *facts.quota);
  const double usable = std::min<double>(facts.allowed, facts.quota.value_or(facts.allowed));
  finding.text +=
      fmt::format(": {} rank{} without sharing a core", std::max(1, static_cast<int>(usable)), usable < 2 ? "" : "s");
  if (facts.quota && *facts.quota < facts.allowed) {
    finding.mark = *facts.quota < 1 ? CheckMark::bad : CheckMark::warn;
    finding.mend = fmt::format(
        "raise the CPU limit to {0}: docker run --cpus {0}, or resources.limits.cpu: {0}; a "
        "throttled rank stops all others",
        facts.allowed);
  } else if (facts.allowed < facts.online && facts.allowed < 2) {
    finding.mark = CheckMark::warn;
    finding.mend =
        fmt::format("taskset -cp 0-{} $$, or srun --cpus-per-task, or docker run --cpuset-cpus", facts.online - 1);
  }
  return finding;
}

DoctorFinding judge_isa(const std::vector<std::string>& flags) {
  if (has(flags, "avx512f") && has(flags, "avx512bw")) return {CheckMark::ok, "vector units", "AVX-512", ""};
  if (has(flags, "avx2")) return {CheckMark::ok, "vector units", "AVX2", ""};
  return {CheckMark::warn, "vector units", "neither AVX2 nor AVX-512: reductions run one element at a time",
          "in a virtual machine, pass the host's CPU through (qemu -cpu host)"};
}

DoctorFinding judge_clock(const std::string& source, const std::vector<std::string>& flags) {
  const bool steady = has(flags, "constant_tsc") && has(flags, "nonstop_tsc");
  DoctorFinding finding{CheckMark::ok, "clock",
                        fmt::format("{}, time stamp counter {}", source.empty() ? "unknown" : source,
                                    steady ? "steady" : "may change its rate"),
                        ""};
  if (source != "tsc" && !source.empty()) {
    finding.mark = CheckMark::warn;
    finding.text += ": every look at the clock is a system call";
    finding.mend = "boot with clocksource=tsc tsc=reliable";
  } else if (!steady) {
    finding.mark = CheckMark::warn;
    finding.mend = "in a virtual machine, pass the host's counter through (qemu -cpu host,+invtsc)";
  }
  return finding;
}

DoctorFinding judge_kernel(const std::string& release) {
  const KernelVersion version = parse_kernel_version(release);
  if (version >= KernelVersion{5, 3}) return {CheckMark::ok, "kernel", release, ""};
  return {CheckMark::bad, "kernel", release + ": no pidfd, the death of a rank is seen late", "run Linux 5.3 or later"};
}

DoctorFinding judge_memlock(std::uint64_t bytes, bool has_rdma) {
  DoctorFinding finding{CheckMark::ok, "locked memory", show_limit(bytes), ""};
  if (bytes == kUnlimited || bytes >= (std::uint64_t{1} << 30)) return finding;
  if (!has_rdma) {
    finding.text += " (matters only with RDMA)";
    return finding;
  }
  finding.mark = CheckMark::bad;
  finding.text += ": RDMA cannot register large buffers";
  finding.mend =
      "ulimit -l unlimited; lasting: '* - memlock unlimited' in /etc/security/limits.conf, or docker run "
      "--ulimit memlock=-1";
  return finding;
}

DoctorFinding judge_open_files(std::uint64_t soft, std::uint64_t hard) {
  DoctorFinding finding{CheckMark::ok, "open files", soft == kUnlimited ? "unlimited" : std::to_string(soft), ""};
  if (soft >= 4096) return finding;
  finding.mark = soft < 256 ? CheckMark::bad : CheckMark::warn;
  finding.text += ": few for many ranks over TCP";
  finding.mend = fmt::format("ulimit -n {}", std::min<std::uint64_t>(hard, 65536));
  return finding;
}

DoctorFinding judge_dev_shm(std::optional<std::uint64_t> free_bytes) {
  if (!free_bytes)
    return {CheckMark::warn, "/dev/shm", "not there: others on this machine may need it; tutti's memory is anonymous",
            "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"};
  DoctorFinding finding{CheckMark::ok, "/dev/shm", show_bytes(*free_bytes) + " free", ""};
  if (*free_bytes < (std::uint64_t{16} << 20)) {
    finding.mark = CheckMark::warn;
    finding.mend = "mount -o remount,size=1G /dev/shm, or docker run --shm-size 1g";
  }
  return finding;
}

DoctorFinding judge_huge_pages(const std::string& ordinary, const std::string& shared) {
  DoctorFinding finding{CheckMark::ok, "huge pages",
                        fmt::format("ordinary memory: {}, shared: {}", ordinary.empty() ? "none" : ordinary,
                                    shared.empty() ? "none" : shared),
                        ""};
  // tutti::allocate asks with madvise: "advise" is enough, "never" and "deny" refuse it.
  if (shared == "never" || shared == "deny") {
    finding.mark = CheckMark::warn;
    finding.text += ": memory of tutti::allocate stays in small pages";
    finding.mend = "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled";
  } else if (ordinary == "never") {
    finding.mark = CheckMark::warn;
    finding.mend = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return finding;
}

std::vector<DoctorFinding> judge_reach(const ReachFacts& facts) {
  DoctorFinding mapping{CheckMark::ok, "shared mappings", "ranks can map each other's registered memory", ""};
  if (facts.open_errno != 0) {
    mapping.mark = CheckMark::bad;
    mapping.text =
        fmt::format("a process may not open /proc/PID/fd of its sibling ({})", std::strerror(facts.open_errno));
    mapping.mend = "run all ranks as one user with /proc mounted; TUTTI_SHM=0 goes without shared memory";
  }
  DoctorFinding reading{CheckMark::ok, "cross-memory attach", "ranks can read each other's ordinary memory", ""};
  if (facts.read_errno != 0) {
    reading.mark = CheckMark::warn;
    reading.text = fmt::format("process_vm_readv of a sibling is refused ({}): ordinary memory is copied twice",
                               std::strerror(facts.read_errno));
    reading.mend = facts.yama_scope > 0 ? "sysctl kernel.yama.ptrace_scope=0"
                                        : "docker run --cap-add SYS_PTRACE, or a seccomp profile that allows "
                                          "process_vm_readv; or use tutti::allocate";
  }
  return {mapping, reading};
}

DoctorFinding judge_tcp_buffers(std::uint64_t receive_limit, std::uint64_t send_limit) {
  DoctorFinding finding{
      CheckMark::ok, "TCP buffers",
      fmt::format("up to {} to receive, {} to send", show_bytes(receive_limit), show_bytes(send_limit)), ""};
  if (std::min(receive_limit, send_limit) < (std::uint64_t{4} << 20)) {
    finding.mark = CheckMark::warn;
    finding.mend = "sysctl net.ipv4.tcp_rmem='4096 131072 16777216' net.ipv4.tcp_wmem='4096 65536 16777216'";
  }
  return finding;
}

DoctorFinding judge_gpu(const gpu::GpuHealth& gpu) {
  DoctorFinding finding{CheckMark::ok, fmt::format("GPU {}", gpu.index), gpu.name.empty() ? "NVIDIA GPU" : gpu.name,
                        ""};
  const auto worsen = [&](CheckMark mark, const std::string& mend) {
    if (mark <= finding.mark) return;
    finding.mark = mark;
    finding.mend = mend;
  };
  if (gpu.lost) {
    finding.text += ": does not answer";
    worsen(CheckMark::bad, "it has fallen off the bus, or needs a reset: `dmesg | grep Xid`, then restart the host");
    return finding;
  }
  if (gpu.clock > 0) finding.text += fmt::format(", {} of {} MHz", gpu.clock, gpu.max_clock);
  if (gpu.temperature > 0) finding.text += fmt::format(", {} C", gpu.temperature);
  if (!gpu.links.empty()) finding.text += fmt::format(", {} of {} NVLinks", active_links_of(gpu), gpu.links.size());
  const std::string more = fmt::format("nvidia-smi -q -i {} -d ", gpu.index);
  if (gpu.rows_failed) {
    finding.text += "; bad memory cannot be replaced any more";
    worsen(CheckMark::bad, "replace the GPU");
  }
  if (gpu.rows_pending) {
    finding.text += "; bad memory waits to be replaced";
    worsen(CheckMark::warn, fmt::format("nvidia-smi --gpu-reset -i {}", gpu.index));
  }
  if (gpu.uncorrected > 0) {
    finding.text += fmt::format("; uncorrected ECC errors: {}, ever: {}", gpu.uncorrected, gpu.uncorrected_ever);
    worsen(CheckMark::warn, more + "ECC,ROW_REMAPPER says more");
  }
  if (const auto reasons = gpu::throttle_names(gpu.throttle); !reasons.empty()) {
    finding.text += fmt::format("; held back by {}", fmt::join(reasons, ", "));
    worsen(CheckMark::warn, more + "PERFORMANCE,TEMPERATURE,POWER says more");
  }
  return finding;
}

}  // namespace tutti::cli
