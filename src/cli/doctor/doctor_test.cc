#include "cli/doctor/doctor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

namespace tutti::cli {
namespace {

using CheckMark = DoctorFinding::CheckMark;

TEST(CpuQuota, IsReadFromBothVersionsOfCgroups) {
  EXPECT_DOUBLE_EQ(parse_cpu_max("150000 100000\n").value(), 1.5);
  EXPECT_FALSE(parse_cpu_max("max 100000\n"));
  EXPECT_FALSE(parse_cpu_max(""));
  EXPECT_DOUBLE_EQ(parse_cfs_quota("400000", "100000").value(), 4.0);
  EXPECT_FALSE(parse_cfs_quota("-1", "100000"));
  EXPECT_FALSE(parse_cfs_quota("", ""));
}

TEST(CgroupPath, IsFoundByController) {
  const char* text = "12:cpu,cpuacct:/docker/abc\n3:cpuset:/other\n0::/user.slice\n";
  EXPECT_EQ(parse_cgroup_path(text, "cpu"), "/docker/abc");
  EXPECT_EQ(parse_cgroup_path(text, "cpuset"), "/other");
  EXPECT_EQ(parse_cgroup_path(text, ""), "/user.slice");
  EXPECT_FALSE(parse_cgroup_path(text, "memory"));
  EXPECT_FALSE(parse_cgroup_path("garbage", "cpu"));
}

TEST(Choice, IsTheWordInBrackets) {
  EXPECT_EQ(parse_choice("always [madvise] never"), "madvise");
  EXPECT_EQ(parse_choice("none"), "");
  EXPECT_EQ(parse_choice("] ["), "");
}

TEST(CpuFlags, AreThoseOfTheFirstCpu) {
  const char* text =
      "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu avx2 nonstop_tsc\n\nprocessor\t: 1\nflags\t\t: fpu\n";
  EXPECT_EQ(parse_cpu_flags(text), (std::vector<std::string>{"fpu", "avx2", "nonstop_tsc"}));
  EXPECT_TRUE(parse_cpu_flags("").empty());
}

TEST(KernelVersions, AreCompared) {
  EXPECT_EQ(parse_kernel_version("6.1.0-18-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(parse_kernel_version("nonsense"), (KernelVersion{0, 0}));
  EXPECT_EQ(judge_kernel("5.10.0").mark, CheckMark::ok);
  EXPECT_EQ(judge_kernel("4.18.0-553.el8").mark, CheckMark::bad);
}

TEST(Rdma, PortsAreReadAsSysfsWritesThem) {
  EXPECT_DOUBLE_EQ(parse_rdma_rate("100 Gb/sec (4X EDR)"), 100.0);
  EXPECT_EQ(parse_rdma_state("4: ACTIVE\n"), "ACTIVE");
}

TEST(Gpus, AreToldWithWhatHoldsThemBack) {
  gpu::GpuHealth gpu;
  gpu.index = 1;
  gpu.name = "NVIDIA H200";
  gpu.clock = 345;
  gpu.max_clock = 1980;
  gpu.temperature = 34;
  gpu.throttle = 0x1;
  gpu.links = {{0, true, 0, 0, 0}, {1, false, 0, 0, 0}};
  EXPECT_EQ(judge_gpu(gpu).text, "NVIDIA H200, 345 of 1980 MHz, 34 C, 1 of 2 NVLinks");
  EXPECT_EQ(judge_gpu(gpu).mark, CheckMark::ok) << "idle";
  gpu.throttle = 0x44;
  EXPECT_EQ(judge_gpu(gpu).mark, CheckMark::warn);
  EXPECT_TRUE(judge_gpu(gpu).text.ends_with("; held back by hardware thermal slowdown, software power cap"));
}

TEST(Gpus, ThatAreBrokenAreToldWithWhatMendsThem) {
  gpu::GpuHealth gpu;
  gpu.index = 3;
  gpu.throttle = 0x40;
  gpu.rows_pending = true;
  gpu.uncorrected = 2;
  gpu.uncorrected_ever = 5;
  EXPECT_EQ(judge_gpu(gpu).mark, CheckMark::warn);
  EXPECT_EQ(judge_gpu(gpu).mend, "nvidia-smi --gpu-reset -i 3");
  EXPECT_NE(judge_gpu(gpu).text.find("uncorrected ECC errors: 2, ever: 5"), std::string::npos);
  gpu.rows_failed = true;
  EXPECT_EQ(judge_gpu(gpu).mark, CheckMark::bad);
  EXPECT_EQ(judge_gpu(gpu).mend, "replace the GPU");
  gpu.lost = true;
  EXPECT_EQ(judge_gpu(gpu).text, "NVIDIA GPU: does not answer");
  EXPECT_EQ(judge_gpu(gpu).mark, CheckMark::bad);
}

TEST(Cores, AQuotaBelowTheCoresIsWarnedOf) {
  EXPECT_EQ(judge_cores({8, 8, std::nullopt}).mark, CheckMark::ok);
  EXPECT_EQ(judge_cores({8, 8, 8.0}).mark, CheckMark::ok);
  const DoctorFinding throttled = judge_cores({8, 8, 2.5});
  EXPECT_EQ(throttled.mark, CheckMark::warn);
  EXPECT_NE(throttled.text.find("2 ranks"), std::string::npos) << throttled.text;
  EXPECT_NE(throttled.mend.find("--cpus 8"), std::string::npos) << throttled.mend;
  EXPECT_EQ(judge_cores({8, 8, 0.5}).mark, CheckMark::bad);
}

TEST(Cores, OneCoreOfManyIsWarnedOf) {
  EXPECT_EQ(judge_cores({8, 1, std::nullopt}).mark, CheckMark::warn);
  EXPECT_EQ(judge_cores({1, 1, std::nullopt}).mark, CheckMark::ok);
}

TEST(Limits, LockedMemoryMattersOnlyWithRdma) {
  EXPECT_EQ(judge_memlock(8 << 20, false).mark, CheckMark::ok);
  EXPECT_EQ(judge_memlock(8 << 20, true).mark, CheckMark::bad);
  EXPECT_EQ(judge_memlock(kUnlimited, true).mark, CheckMark::ok);
}

TEST(Limits, FewOpenFilesAreMendedWithinTheHardLimit) {
  EXPECT_EQ(judge_open_files(65536, 65536).mark, CheckMark::ok);
  const DoctorFinding few = judge_open_files(1024, 4096);
  EXPECT_EQ(few.mark, CheckMark::warn);
  EXPECT_EQ(few.mend, "ulimit -n 4096");
}

TEST(Reach, SaysWhichDoorIsClosedAndHowToOpenIt) {
  for (const DoctorFinding& finding : judge_reach({0, 0, 1})) EXPECT_EQ(finding.mark, CheckMark::ok);
  const auto yama = judge_reach({EPERM, 0, 1});
  EXPECT_EQ(yama[1].mark, CheckMark::warn);
  EXPECT_EQ(yama[1].mend, "sysctl kernel.yama.ptrace_scope=0");
  const auto seccomp = judge_reach({EPERM, 0, -1});
  EXPECT_NE(seccomp[1].mend.find("SYS_PTRACE"), std::string::npos);
  EXPECT_EQ(judge_reach({0, EACCES, -1})[0].mark, CheckMark::bad);
}

TEST(Clock, OtherSourcesThanTheCounterAreWarnedOf) {
  const std::vector<std::string> steady = {"constant_tsc", "nonstop_tsc"};
  EXPECT_EQ(judge_clock("tsc", steady).mark, CheckMark::ok);
  EXPECT_EQ(judge_clock("hpet", steady).mark, CheckMark::warn);
  EXPECT_EQ(judge_clock("tsc", {}).mark, CheckMark::warn);
}

TEST(TcpBuffers, TheLargestIsTheThirdNumber) {
  EXPECT_EQ(parse_tcp_buffer_limit("4096\t131072\t6291456"), 6291456U);
  EXPECT_EQ(parse_tcp_buffer_limit("4096"), 0U);
  EXPECT_EQ(judge_tcp_buffers(6 << 20, 4 << 20).mark, CheckMark::ok);
  EXPECT_EQ(judge_tcp_buffers(6 << 20, 212992).mark, CheckMark::warn);
}

TEST(EveryFinding, ThatIsNotOkHasALineThatMendsIt) {
  std::vector<DoctorFinding> all = examine_cpu();
  for (const auto& more : {examine_memory(), examine_network(), examine_gpus()})
    all.insert(all.end(), more.begin(), more.end());
  EXPECT_GT(all.size(), 10U);
  for (const DoctorFinding& finding : all) {
    EXPECT_FALSE(finding.text.empty()) << finding.topic;
    EXPECT_EQ(finding.mark == CheckMark::ok, finding.mend.empty()) << finding.topic << ": " << finding.text;
  }
}

}  // namespace
}  // namespace tutti::cli
