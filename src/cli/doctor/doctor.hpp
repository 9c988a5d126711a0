// What this machine offers, and what would make it faster or break it. examine_* look at the machine; judge_* are pure,
// and say what the facts mean and the line that mends them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/support/machine_text.hpp"

namespace tutti::cli {

struct Finding {
  enum class Mark {
    ok,
    warn,  // works, slower than it could
    bad,   // something will fail
  };
  Mark mark = Mark::ok;
  std::string topic;
  std::string text;
  std::string mend;  // where not ok
};

struct CoreFacts {
  int online = 1;
  int allowed = 1;              // by affinity
  std::optional<double> quota;  // by cgroup
};
Finding judge_cores(const CoreFacts& facts);
Finding judge_isa(const std::vector<std::string>& flags);
Finding judge_clock(const std::string& source, const std::vector<std::string>& flags);
Finding judge_kernel(const std::string& release);

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
Finding judge_memlock(std::uint64_t bytes, bool has_rdma);
Finding judge_open_files(std::uint64_t soft, std::uint64_t hard);
Finding judge_dev_shm(std::optional<std::uint64_t> free_bytes);
Finding judge_huge_pages(const std::string& ordinary, const std::string& shared);

/// What one process may do to a sibling, and why not (errno, 0: it may).
struct ReachFacts {
  int read_errno = 0;   // process_vm_readv
  int open_errno = 0;   // /proc/<pid>/fd/<memfd>
  int yama_scope = -1;  // kernel.yama.ptrace_scope; -1: no Yama
};
std::vector<Finding> judge_reach(const ReachFacts& facts);
Finding judge_tcp_buffers(std::uint64_t receive_limit, std::uint64_t send_limit);
Finding judge_gpu(const GpuLine& gpu);

std::vector<Finding> examine_cpu();
std::vector<Finding> examine_memory();
std::vector<Finding> examine_network();
std::vector<Finding> examine_gpus();

/// The first line of a small file of /proc or /sys; empty where it cannot be read.
std::string read_line(const std::string& path);
std::string read_file(const std::string& path);

}  // namespace tutti::cli
