// The same with the driver of this host, compared with what nvidia-smi says. Without a driver it has nothing to test.
#include <dlfcn.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gpu_health/gpu_watch.hpp"
#include "gpu_health/nvml_reader.hpp"

namespace tutti::gpu {
namespace {

std::string ask_nvidia_smi(const std::string& what) {
  std::string said;
  std::FILE* const pipe =
      ::popen(fmt::format("nvidia-smi -i 0 --query-gpu={} --format=csv,noheader,nounits", what).c_str(), "r");
  if (pipe == nullptr) return said;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) said += buffer;
  ::pclose(pipe);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said;
}

/// A process that computes on the first GPU until it is destroyed.
class GpuUser {
 public:
  GpuUser() {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      const char has_context = make_context() ? 'y' : 'n';
      (void)!::write(ready[1], &has_context, 1);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char answer = 'n';
    works_ = ::read(ready[0], &answer, 1) == 1 && answer == 'y';
    ::close(ready[0]);
  }
  ~GpuUser() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  GpuUser(const GpuUser&) = delete;
  GpuUser& operator=(const GpuUser&) = delete;

  pid_t pid() const { return pid_; }
  bool works() const { return works_; }

 private:
  static bool make_context() {
    void* const cuda = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda == nullptr) return false;
    const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(cuda, "cuInit"));
    const auto create = reinterpret_cast<int (*)(void**, unsigned, int)>(::dlsym(cuda, "cuCtxCreate_v2"));
    void* context = nullptr;
    return init != nullptr && create != nullptr && init(0) == 0 && create(&context, 0, 0) == 0;
  }

  pid_t pid_ = -1;
  bool works_ = false;
};

class NvmlDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reader.look().has_nvml) GTEST_SKIP() << "this host has no driver of NVIDIA's";
  }
  NvmlReader reader{""};
};

TEST_F(NvmlDriver, says_what_nvidia_smi_says) {
  const GpuLook look = reader.look();
  ASSERT_EQ(look.problem, "");
  ASSERT_FALSE(look.gpus.empty());
  const GpuHealth& gpu = look.gpus.front();
  EXPECT_EQ(gpu.name, ask_nvidia_smi("name"));
  EXPECT_EQ(gpu.uuid, ask_nvidia_smi("uuid"));
  EXPECT_EQ(fmt::format("{}", gpu.max_clock), ask_nvidia_smi("clocks.max.sm"));
  EXPECT_NEAR(gpu.temperature, std::atoi(ask_nvidia_smi("temperature.gpu").c_str()), 5);
  EXPECT_NEAR(gpu.clock, std::atoi(ask_nvidia_smi("clocks.sm").c_str()), gpu.max_clock);
  EXPECT_GT(gpu.clock, 0);
  EXPECT_EQ(fmt::format("{}", gpu.uncorrected), ask_nvidia_smi("ecc.errors.uncorrected.volatile.total"));
  EXPECT_EQ(fmt::format("{}", gpu.uncorrected_ever), ask_nvidia_smi("ecc.errors.uncorrected.aggregate.total"));
  EXPECT_FALSE(gpu.lost);
  EXPECT_TRUE(look.xids.empty());
  fmt::print("{}: {} of {} MHz, {} C, {} of {} NVLinks, held back by {:#x}\n", gpu.name, gpu.clock, gpu.max_clock,
             gpu.temperature, active_links_of(gpu), gpu.links.size(), gpu.throttle);
}

TEST_F(NvmlDriver, names_who_computes_on_a_gpu) {
  const GpuUser user;
  if (!user.works()) GTEST_SKIP() << "no context can be made on the GPU";
  std::vector<int> pids;
  const auto sees = [&] {
    pids = reader.look().gpus.front().pids;
    return std::find(pids.begin(), pids.end(), user.pid()) != pids.end();
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!sees() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (pids.empty()) GTEST_SKIP() << "the driver does not see into the namespace of pids of this container";
  EXPECT_TRUE(sees()) << fmt::format("{} is not among {} processes", user.pid(), pids.size());
}

TEST_F(NvmlDriver, answers_in_time) {
  GpuWatch watch("");
  ASSERT_EQ(watch.look().problem, "");
  const auto start = std::chrono::steady_clock::now();
  constexpr int kLooks = 20;
  for (int i = 0; i < kLooks; ++i) EXPECT_EQ(watch.look().problem, "");
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  fmt::print("a look takes {:.1f} ms\n", took.count() / kLooks);
  EXPECT_LT(took.count() / kLooks, 500);
}

}  // namespace
}  // namespace tutti::gpu
