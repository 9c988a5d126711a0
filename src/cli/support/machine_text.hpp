// What the kernel and tools write about a machine, read. Pure functions: text in, values out, so that every form seen
// in the field can stand in a test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

/// Cores a cgroup may use, from version 2's cpu.max ("150000 100000"); nothing for "max".
std::optional<double> parse_cpu_max(std::string_view text);
/// The same from version 1's cpu.cfs_quota_us and cpu.cfs_period_us; nothing for a quota of -1.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

/// The path of this process in the hierarchy of `controller` ("" for version 2), from /proc/self/cgroup.
std::optional<std::string> parse_cgroup_path(std::string_view text, std::string_view controller);

/// The word in brackets: "always [madvise] never" gives "madvise". Empty where there is none.
std::string parse_choice(std::string_view text);

/// The flags of the first CPU in /proc/cpuinfo.
std::vector<std::string> parse_cpu_flags(std::string_view cpuinfo);

/// "6.1.0-18-amd64" gives {6, 1}; {0, 0} where it cannot be read.
struct KernelVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const KernelVersion&) const = default;
};
KernelVersion parse_kernel_version(std::string_view release);

/// "100 Gb/sec (4X EDR)" gives 100; "4: ACTIVE" gives "ACTIVE". As /sys/class/infiniband writes them.
double parse_rdma_rate(std::string_view text);
std::string parse_rdma_state(std::string_view text);

/// The last of the three numbers in net.ipv4.tcp_rmem and tcp_wmem: the largest buffer. 0 where it cannot be read.
std::uint64_t parse_tcp_buffer_limit(std::string_view text);

}  // namespace tutti::cli
