#include "diagnosis/gpu/gpu_observer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tutti::diagnosis {
namespace {

constexpr std::uint64_t kThermal = 0x48, kPowerCap = 0x4;

/// GPUs that are well, with a process of its own each: pid 100 on GPU 0.
gpu::GpuLook host(int gpus) {
  gpu::GpuLook look;
  look.has_nvml = true;
  for (int i = 0; i < gpus; ++i) {
    gpu::GpuHealth& gpu = look.gpus.emplace_back();
    gpu.index = i;
    gpu.pids = {100 + i};
    gpu.clock = gpu.max_clock = 1980;
  }
  return look;
}

/// A host with a job, seen again and again.
class SeenHost {
 public:
  explicit SeenHost(int processes) {
    for (int i = 0; i < processes; ++i) job_.processes.emplace_back().pid = 100 + i;
  }

  void kill(int process) { job_.processes[static_cast<std::size_t>(process)].state = ProcessState::killed; }
  Telemetry look(const gpu::GpuLook& look, double now) {
    std::vector<Telemetry> jobs = {job_};
    observer_.observe(look, now, jobs);
    return jobs.front();
  }
  /// What is known of this process's GPU.
  GpuFacts gpu_at(const gpu::GpuLook& seen, double now, std::size_t process = 0) {
    const Telemetry telemetry = look(seen, now);
    EXPECT_EQ(telemetry.processes[process].gpus.size(), 1U);
    return telemetry.processes[process].gpus.empty() ? GpuFacts{} : telemetry.processes[process].gpus.front();
  }

 private:
  Telemetry job_;
  GpuObserver observer_;
};

TEST(GpuObserver, gives_processes_their_gpus) {
  gpu::GpuLook look = host(3);
  look.gpus[2].pids = {100, 555};
  const Telemetry telemetry = SeenHost(2).look(look, 1);
  ASSERT_EQ(telemetry.processes[0].gpus.size(), 2U);
  EXPECT_EQ(telemetry.processes[0].gpus[1].index, 2);
  ASSERT_EQ(telemetry.processes[1].gpus.size(), 1U);
  EXPECT_EQ(telemetry.processes[1].gpus[0].max_clock, 1980);
}

TEST(GpuObserver, takes_the_share_of_the_last_looks) {
  SeenHost seen(1);
  gpu::GpuLook look = host(1);
  look.gpus[0].throttle = kThermal;
  look.gpus[0].clock = 1005;
  for (int i = 0; i < 20; ++i) seen.look(look, 1 + i);
  GpuFacts facts = seen.gpu_at(host(1), 21);
  EXPECT_NEAR(facts.throttled, 10.0 / 11, 1e-9) << "of ten seconds";
  EXPECT_EQ(facts.throttle, "hardware thermal slowdown");
  EXPECT_EQ(facts.clock, 1005) << "the middle";
  for (int i = 22; i < 40; ++i) facts = seen.gpu_at(host(1), i);
  EXPECT_EQ(facts.throttled, 0);
  EXPECT_EQ(facts.throttle, "");
  EXPECT_EQ(facts.clock, 1980);
  look.gpus[0].throttle = kPowerCap;
  EXPECT_EQ(seen.gpu_at(look, 40).throttle, "software power cap");
}

TEST(GpuObserver, counts_errors_of_links_within_a_minute) {
  SeenHost seen(2);
  gpu::GpuLook look = host(2);
  for (gpu::GpuHealth& gpu : look.gpus) gpu.links = {{0, true, 1000, 0, 0}, {1, true, 0, 0, 0}};
  EXPECT_EQ(seen.gpu_at(look, 1).link_errors, 0U) << "counted before anybody looked";
  look.gpus[0].links[1].flit_errors = 4;
  EXPECT_EQ(seen.gpu_at(look, 30).link_errors, 4U);
  EXPECT_EQ(seen.gpu_at(look, 80).link_errors, 0U);
  look.gpus[0].links[0] = {0, false, 0, 0, 0};
  const GpuFacts facts = seen.gpu_at(look, 81);
  EXPECT_EQ(facts.links_down, 1);
  EXPECT_EQ(facts.link_errors, 0U) << "the counters of a link that is down are gone";
  EXPECT_EQ(seen.gpu_at(look, 82, 1).links_down, 0);
}

TEST(GpuObserver, takes_links_that_no_gpu_of_the_host_has_for_normal) {
  SeenHost seen(2);
  gpu::GpuLook look = host(2);
  for (gpu::GpuHealth& gpu : look.gpus) gpu.links = {{0, true, 0, 0, 0}, {1, false, 0, 0, 0}};
  EXPECT_EQ(seen.gpu_at(look, 1).links_down, 0);
}

TEST(GpuObserver, remembers_critical_errors_and_where_the_dead_computed) {
  SeenHost seen(2);
  seen.look(host(2), 1);
  gpu::GpuLook after = host(2);
  after.gpus[0] = {};
  after.gpus[0].lost = true;
  after.xids = {{0, 79}};
  seen.kill(0);
  GpuFacts facts = seen.gpu_at(after, 2);
  EXPECT_TRUE(facts.lost);
  ASSERT_EQ(facts.xids.size(), 1U);
  EXPECT_EQ(facts.xids[0].code, 79);
  EXPECT_EQ(facts.xids[0].at, 2);
  after.xids.clear();
  EXPECT_EQ(seen.gpu_at(after, 500).xids.size(), 1U);
  EXPECT_EQ(seen.gpu_at({}, 510).xids.size(), 1U) << "also while the driver is stuck";
  EXPECT_TRUE(seen.gpu_at(after, 700).xids.empty()) << "ten minutes later";
  after.gpus[0] = host(1).gpus[0];
  after.gpus[0].pids = {};
  after.gpus[1].pids = {100, 101};
  EXPECT_EQ(seen.gpu_at(after, 701).index, 0) << "another process has its number";
}

TEST(GpuObserver, finds_who_had_a_gpu_that_was_lost_before_it_looked) {
  gpu::GpuLook look = host(3);
  look.gpus[1].lost = true;
  look.gpus[1].pids.clear();
  SeenHost seen(3);
  EXPECT_EQ(seen.gpu_at(look, 1, 1).index, 1);
  look.gpus[2].lost = true;
  look.gpus[2].pids.clear();
  EXPECT_TRUE(SeenHost(3).look(look, 1).processes[1].gpus.empty()) << "one of two";
}

TEST(GpuObserver, says_nothing_without_gpus) { EXPECT_TRUE(SeenHost(1).look({}, 1).processes[0].gpus.empty()); }

}  // namespace
}  // namespace tutti::diagnosis
