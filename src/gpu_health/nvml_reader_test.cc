#include "gpu_health/nvml_reader.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gpu_health/gpu_watch.hpp"

namespace tutti::gpu {
namespace {

/// GPUs of the fake library, described as it says.
class NvmlReaderTest : public ::testing::Test {
 protected:
  NvmlReaderTest() : path_(std::filesystem::temp_directory_path() / ("fake_nvml." + std::to_string(::getpid()))) {
    ::setenv("FAKE_NVML_STATE", path_.c_str(), 1);
  }
  ~NvmlReaderTest() override { std::filesystem::remove(path_); }

  /// In one step: a look that goes on meanwhile sees all of it or nothing.
  void describe(const std::string& state) const {
    const std::filesystem::path next = path_.string() + ".next";
    std::ofstream(next) << state;
    std::filesystem::rename(next, path_);
  }
  GpuHealth look_at_one(const std::string& state) const {
    describe(state);
    const GpuLook look = NvmlReader(FAKE_NVML).look();
    EXPECT_EQ(look.gpus.size(), 1U) << look.problem;
    return look.gpus.empty() ? GpuHealth{} : look.gpus.front();
  }

 private:
  std::filesystem::path path_;
};

TEST_F(NvmlReaderTest, reads_what_a_gpu_says_of_itself) {
  const GpuHealth gpu = look_at_one(
      "gpu\nname NVIDIA H200\nuuid GPU-1\npids 12 7\nthrottle 0x48\nclock 1005\nmax_clock 1980\ntemperature 91\n"
      "ecc 2 5\nrows 1 0\nlinks 3\nlink 1 1 4 5 6\nlink 2 0 9 9 9\n");
  EXPECT_EQ(gpu.index, 0);
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.uuid, "GPU-1");
  EXPECT_EQ(gpu.pids, (std::vector<int>{7, 12}));
  EXPECT_EQ(gpu.throttle, 0x48U);
  EXPECT_EQ(gpu.clock, 1005);
  EXPECT_EQ(gpu.max_clock, 1980);
  EXPECT_EQ(gpu.temperature, 91);
  EXPECT_EQ(gpu.uncorrected, 2U);
  EXPECT_EQ(gpu.uncorrected_ever, 5U);
  EXPECT_TRUE(gpu.rows_pending);
  EXPECT_FALSE(gpu.rows_failed);
  ASSERT_EQ(gpu.links.size(), 3U);
  EXPECT_EQ(active_links_of(gpu), 2);
  EXPECT_EQ(gpu.links[1].replays, 4U);
  EXPECT_EQ(gpu.links[1].recoveries, 5U);
  EXPECT_EQ(gpu.links[1].flit_errors, 6U);
  EXPECT_EQ(link_errors_of(gpu), 15U) << "counters of a link that is down are not read";
  EXPECT_FALSE(gpu.lost);
}

TEST_F(NvmlReaderTest, lists_more_processes_than_it_first_has_room_for) {
  std::string state = "gpu\npids";
  for (int pid = 1; pid <= 100; ++pid) state += " " + std::to_string(pid);
  EXPECT_EQ(look_at_one(state + "\n").pids.size(), 100U);
}

TEST_F(NvmlReaderTest, goes_without_what_a_gpu_does_not_offer) {
  const std::string state =
      "gpu\nname T4\npids 7\nthrottle 0x40\nclock 500\ntemperature 91\necc 2 5\nrows 1 1\nlinks 2\n";
  for (const char* const function :
       {"nvmlDeviceGetUUID", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetNvLinkErrorCounter", "nvmlDeviceRegisterEvents"}) {
    const GpuHealth gpu = look_at_one(state + "without " + function + "\n");
    EXPECT_EQ(gpu.name, "T4") << function;
    EXPECT_FALSE(gpu.lost) << function;
    const std::string name = function;
    EXPECT_EQ(gpu.pids.empty(), name == "nvmlDeviceGetComputeRunningProcesses_v3");
    EXPECT_EQ(gpu.throttle == 0, name == "nvmlDeviceGetCurrentClocksThrottleReasons");
    EXPECT_EQ(gpu.clock == 0, name == "nvmlDeviceGetClockInfo");
    EXPECT_EQ(gpu.max_clock == 0, name == "nvmlDeviceGetMaxClockInfo");
    EXPECT_EQ(gpu.temperature == 0, name == "nvmlDeviceGetTemperature");
    EXPECT_EQ(gpu.uncorrected == 0, name == "nvmlDeviceGetTotalEccErrors");
    EXPECT_EQ(gpu.rows_failed, name != "nvmlDeviceGetRemappedRows");
    EXPECT_EQ(gpu.links.empty(), name == "nvmlDeviceGetNvLinkState");
  }
}

TEST_F(NvmlReaderTest, goes_without_what_a_library_lacks) {
  describe("gpu\nname unheard\npids 7 8\nthrottle 0x40\nxid 0 79\n");
  NvmlReader reader(FAKE_OLD_NVML);
  const GpuLook look = reader.look();
  EXPECT_EQ(look.problem, "");
  ASSERT_EQ(look.gpus.size(), 1U);
  EXPECT_EQ(look.gpus[0].name, "");
  EXPECT_EQ(look.gpus[0].pids, (std::vector<int>{7, 8})) << "by the first version's structure";
  EXPECT_EQ(look.gpus[0].throttle, 0U);
  EXPECT_TRUE(look.xids.empty());
}

TEST_F(NvmlReaderTest, leaves_out_gpus_that_it_may_not_see) {
  describe("gpu\nwithout nvmlDeviceGetHandleByIndex_v2\n");
  EXPECT_TRUE(NvmlReader(FAKE_NVML).look().gpus.empty());
}

TEST_F(NvmlReaderTest, keeps_the_name_of_a_gpu_that_is_lost) {
  describe("gpu\nuuid GPU-0\ngpu\nuuid GPU-1\npids 7\n");
  NvmlReader reader(FAKE_NVML);
  EXPECT_FALSE(reader.look().gpus[1].lost);
  for (const char* const after : {"gpu\nuuid GPU-0\ngpu\nlost\n", "gpu\nuuid GPU-0\n"}) {
    describe(after);
    const GpuLook look = reader.look();
    ASSERT_EQ(look.gpus.size(), 2U) << "one that is not counted any more is missed";
    EXPECT_FALSE(look.gpus[0].lost);
    EXPECT_TRUE(look.gpus[1].lost);
    EXPECT_EQ(look.gpus[1].uuid, "GPU-1");
    EXPECT_TRUE(look.gpus[1].pids.empty());
  }
  describe("gpu\nuuid GPU-0\ngpu\nuuid GPU-1\n");
  EXPECT_FALSE(reader.look().gpus[1].lost) << "it was reset";
}

TEST_F(NvmlReaderTest, tells_of_critical_errors_once_and_of_none_from_before) {
  describe("gpu\ngpu\nxid 0 31\n");
  NvmlReader reader(FAKE_NVML);
  EXPECT_TRUE(reader.look().xids.empty());
  describe("gpu\ngpu\nxid 0 31\nxid 1 48\nxid 1 79\n");
  const std::vector<GpuXid> xids = reader.look().xids;
  ASSERT_EQ(xids.size(), 2U);
  EXPECT_EQ(xids[0].gpu, 1);
  EXPECT_EQ(xids[0].code, 48);
  EXPECT_EQ(xids[1].code, 79);
  EXPECT_TRUE(reader.look().xids.empty());
}

TEST_F(NvmlReaderTest, is_silent_where_there_is_no_driver) {
  const GpuLook none = NvmlReader("none").look();
  EXPECT_FALSE(none.has_nvml);
  EXPECT_EQ(none.problem, "");
  if (std::filesystem::exists("/proc/driver/nvidia")) GTEST_SKIP() << "this host has a driver";
  EXPECT_EQ(NvmlReader("").look().problem, "");
}

TEST_F(NvmlReaderTest, says_what_is_wrong_with_a_library) {
  EXPECT_NE(NvmlReader("/nonexistent/nvml.so").look().problem.find("/nonexistent/nvml.so"), std::string::npos);
  EXPECT_NE(NvmlReader("libc.so.6").look().problem.find("lacks functions"), std::string::npos);
  describe("init 9\n");
  const std::string problem = NvmlReader(FAKE_NVML).look().problem;
  EXPECT_NE(problem.find("NVML error 9 (an error)"), std::string::npos) << problem;
}

TEST_F(NvmlReaderTest, does_not_wait_for_a_driver_that_is_stuck) {
  describe("gpu\nsleep 0.5\nxid 0 31\n");
  GpuWatch watch(FAKE_NVML, 0.05);
  for (int looks = 0; looks < 2; ++looks) {
    const GpuLook look = watch.look();
    EXPECT_TRUE(look.gpus.empty());
    EXPECT_EQ(look.problem, "the driver of the GPUs has not answered for 0.05 s");
  }
  describe("gpu\nname Awake\nxid 0 31\nxid 0 79\n");
  GpuLook look;
  while ((look = watch.look()).gpus.empty()) ::usleep(1000);
  EXPECT_EQ(look.gpus[0].name, "Awake");
}

TEST_F(NvmlReaderTest, looks_within_the_time_limit_as_without_one) {
  describe("gpu\npids 7\n");
  GpuWatch watch(FAKE_NVML);
  EXPECT_EQ(watch.look().gpus.at(0).pids, std::vector<int>{7});
  describe("gpu\nxid 0 79\n");
  EXPECT_EQ(watch.look().xids.at(0).code, 79);
  EXPECT_TRUE(watch.look().xids.empty());
}

TEST(ThrottleReasons, are_named_and_an_idle_gpu_is_no_fault) {
  EXPECT_TRUE(throttle_names(0x1 | 0x2 | 0x10 | 0x100).empty());
  EXPECT_EQ(throttle_names(0x48), std::vector<std::string>{"hardware thermal slowdown"});
  EXPECT_EQ(throttle_names(0x08), std::vector<std::string>{"hardware slowdown"});
  EXPECT_EQ(throttle_names(0xa4),
            (std::vector<std::string>{"hardware power brake", "software thermal slowdown", "software power cap"}));
}

}  // namespace
}  // namespace tutti::gpu
