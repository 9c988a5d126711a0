// What this machine offers, and what would make it faster or break it. examine_* look at the machine; judge_* are pure,
// and say what the facts mean and the line that mends them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/support/machine_text.hpp"
#include "gpu_health/gpu_health.hpp"

namespace tutti::cli {

struct DoctorFinding {
  enum class CheckMark {
    ok,
    warn,  // works, slower than it could
    bad,   // something will fail
  };
  CheckMark mark = CheckMark::ok;
  std::string topic;
  std::string text;
  std::string mend;  // where not ok
};

struct CoreFacts {
  int online = 1;
  int allowed = 1;              // by affinity
  std::optional<double> quota;  // by cgroup
};
DoctorFinding judge_cores(const CoreFacts& facts);
DoctorFinding judge_isa(const std::vector<std::string>& flags);
DoctorFinding judge_clock(const std::string& source, const std::vector<std::string>& flags);
DoctorFinding judge_kernel(const std::string& release);

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
DoctorFinding judge_memlock(std::uint64_t bytes, bool has_rdma);
DoctorFinding judge_open_files(std::uint64_t soft, std::uint64_t hard);
DoctorFinding judge_dev_shm(std::optional<std::uint64_t> free_bytes);
DoctorFinding judge_huge_pages(const std::string& ordinary, const std::string& shared);

/// What one process may do to a sibling, and why not (errno, 0: it may).
struct ReachFacts {
  int read_errno = 0;   // process_vm_readv
  int open_errno = 0;   // /proc/<pid>/fd/<memfd>
  int yama_scope = -1;  // kernel.yama.ptrace_scope; -1: no Yama
};
std::vector<DoctorFinding> judge_reach(const ReachFacts& facts);
DoctorFinding judge_tcp_buffers(std::uint64_t receive_limit, std::uint64_t send_limit);
DoctorFinding judge_gpu(const gpu::GpuHealth& gpu);

std::vector<DoctorFinding> examine_cpu();
std::vector<DoctorFinding> examine_memory();
std::vector<DoctorFinding> examine_network();
std::vector<DoctorFinding> examine_gpus();

/// The first line of a small file of /proc or /sys; empty where it cannot be read.
std::string read_line(const std::string& path);
std::string read_file(const std::string& path);

}  // namespace tutti::cli
