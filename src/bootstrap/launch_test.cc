#include "bootstrap/launch.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "bootstrap/nodelist.hpp"
#include "bootstrap/pmi.hpp"

namespace tutti {
namespace {

std::string error_of(const Environment& environment) {
  const auto launch = launch_info(environment);
  return launch ? "(no error)" : launch.error().message;
}

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node0"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "run"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "123"},           {"PMIX_RANK", "1"}};
const Environment kHydra = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Environment kSlurm = {{"SLURM_PROCID", "6"},
                            {"SLURM_NTASKS", "8"},
                            {"SLURM_STEP_NUM_TASKS", "8"},
                            {"SLURM_LOCALID", "2"},
                            {"SLURM_NODEID", "1"},
                            {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                            {"SLURM_STEP_NODELIST", "node[07-08]"},
                            {"SLURM_JOB_ID", "42"},
                            {"SLURM_STEP_ID", "0"}};

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}
Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

TEST(Launch, ByTuttiRun) {
  const auto launch = launch_info({{"TUTTI_RANK", "2"},
                                   {"TUTTI_SIZE", "4"},
                                   {"TUTTI_ADDRESS", "[::1]:5000"},
                                   {"TUTTI_SECRET", "s"},
                                   {"TUTTI_LOCAL_RANK", "2"},
                                   {"TUTTI_LOCAL_SIZE", "4"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->source, "tutti run");
  EXPECT_EQ(launch->rank, 2);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->local_rank, 2);
  EXPECT_EQ(launch->local_size, 4);
  EXPECT_EQ(launch->secret, "s");
  ASSERT_EQ(launch->endpoints.size(), 1u);
  EXPECT_EQ(launch->endpoints[0].host, "::1");
  EXPECT_EQ(launch->endpoints[0].port, 5000);
}

TEST(Launch, ByTorchrunMeetsAboveTheMasterPort) {
  const auto launch = launch_info(kTorchrun);
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_EQ(launch->source, "torchrun");
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->local_rank, 1);
  ASSERT_FALSE(launch->endpoints.empty());
  EXPECT_EQ(launch->endpoints[0].host, "node0");
  EXPECT_EQ(launch->endpoints[0].port, 29501);
}

TEST(Launch, OnOneHostMeetsOnLoopback) {
  const auto launch = launch_info(with(kTorchrun, "LOCAL_WORLD_SIZE", "8"));
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->endpoints[0].host, "127.0.0.1");
}

TEST(Launch, TakesTheAddressAndPortItIsTold) {
  const auto address = launch_info(with(kTorchrun, "TUTTI_ADDRESS", "other:77"));
  ASSERT_TRUE(address);
  ASSERT_EQ(address->endpoints.size(), 1u);
  EXPECT_EQ(address->endpoints[0].host, "other");
  const auto port = launch_info(with(without(kTorchrun, "MASTER_PORT"), "TUTTI_PORT", "77"));
  ASSERT_TRUE(port);
  ASSERT_EQ(port->endpoints.size(), 1u);
  EXPECT_EQ(port->endpoints[0].port, 77);
}

TEST(Launch, ByOpenMpiMeetsThroughPmixOrOnAPortOfTheJob) {
  const auto launch = launch_info(kOpenMpi);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->source, "openmpi");
  EXPECT_EQ(launch->meeting, Meeting::pmix);
  ASSERT_FALSE(launch->endpoints.empty());
  EXPECT_EQ(launch->endpoints[0].host, "127.0.0.1");
  EXPECT_EQ(launch->endpoints[0].port, launch_info(with(kOpenMpi, "PMIX_RANK", "0"))->endpoints[0].port);
  EXPECT_NE(launch->endpoints[0].port, launch_info(with(kOpenMpi, "PMIX_NAMESPACE", "124"))->endpoints[0].port);
}

TEST(Launch, ByHydraMeetsThroughPmi) {
  const auto launch = launch_info(kHydra);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->source, "hydra");
  EXPECT_EQ(launch->meeting, Meeting::pmi);
  EXPECT_EQ(launch->pmi_descriptor, 9);
  EXPECT_EQ(launch->local_size, 2);
}

TEST(Launch, BySlurmMeetsOnTheFirstNode) {
  const auto launch = launch_info(kSlurm);
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_EQ(launch->source, "slurm");
  EXPECT_EQ(launch->rank, 6);
  EXPECT_EQ(launch->local_size, 4);
  EXPECT_EQ(launch->meeting, Meeting::endpoints);
  EXPECT_EQ(launch->endpoints[0].host, "node07");
  EXPECT_EQ(launch_info(with(with(kSlurm, "PMIX_NAMESPACE", "x"), "PMIX_RANK", "6"))->meeting, Meeting::pmix);
}

TEST(Launch, ByKubernetesTakesItsSizeFromEitherVariable) {
  const Environment base = {{"JOB_COMPLETION_INDEX", "1"}, {"MASTER_ADDR", "job-0.svc"}, {"MASTER_PORT", "29500"}};
  for (const char* size : {"TUTTI_SIZE", "WORLD_SIZE"}) {
    const auto launch = launch_info(with(base, size, "3"));
    ASSERT_TRUE(launch) << launch.error().message;
    EXPECT_EQ(launch->source, "kubernetes");
    EXPECT_EQ(launch->size, 3);
    EXPECT_EQ(launch->endpoints[0].host, "job-0.svc");
  }
}

TEST(Launch, LaunchersInsideSlurmGoBeforeIt) {
  const auto inside = [](const Environment& inner) {
    Environment both = kSlurm;
    both.insert(inner.begin(), inner.end());
    return launch_info(both)->source;
  };
  EXPECT_EQ(inside(kTorchrun), "torchrun");
  EXPECT_EQ(inside(kOpenMpi), "openmpi");
  EXPECT_EQ(inside(kHydra), "hydra");
  EXPECT_EQ(inside({{"PMI_RANK", "6"}, {"PMI_SIZE", "8"}, {"PMI_FD", "9"}}), "slurm") << "srun --mpi=pmi2";
}

TEST(Launch, NamesTheVariableThatIsMissing) {
  const auto names = [](const Environment& environment, const std::string& name) {
    EXPECT_EQ(error_of(environment).find(name + " is not set"), 0u) << error_of(environment);
  };
  names({{"TUTTI_RANK", "0"}}, "TUTTI_SIZE");
  names({{"TUTTI_SIZE", "2"}}, "TUTTI_RANK");
  names({{"TUTTI_ADDRESS", "a:1"}}, "TUTTI_RANK");
  names({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}}, "TUTTI_ADDRESS");
  names({{"RANK", "0"}}, "WORLD_SIZE");
  names({{"WORLD_SIZE", "2"}}, "RANK");
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) names(without(kTorchrun, name), name);
  names(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_SIZE");
  names(without(kHydra, "PMI_SIZE"), "PMI_SIZE");
  names(without(without(kSlurm, "SLURM_STEP_NODELIST"), "SLURM_JOB_NODELIST"), "SLURM_JOB_NODELIST");
  names(without(kSlurm, "SLURM_JOB_ID"), "SLURM_JOB_ID");
  names({{"JOB_COMPLETION_INDEX", "0"}}, "WORLD_SIZE");
}

TEST(Launch, NamesTheValueThatIsWrong) {
  EXPECT_EQ(error_of(with(kTorchrun, "RANK", "8")), "RANK=8 is not below WORLD_SIZE=8");
  EXPECT_EQ(error_of(with(kTorchrun, "RANK", "-1")), "RANK='-1' is not a number");
  EXPECT_EQ(error_of(with(kTorchrun, "WORLD_SIZE", "many")), "WORLD_SIZE='many' is not a number");
  EXPECT_EQ(error_of(with(kTorchrun, "MASTER_PORT", "70000")), "MASTER_PORT=70000 is not a port");
  EXPECT_NE(error_of(with(kTorchrun, "TUTTI_ADDRESS", "nowhere")).find("TUTTI_ADDRESS: 'nowhere'"), std::string::npos);
}

TEST(Launch, BeyondLoopbackNeedsASecret) {
  const Environment open = with(kTorchrun, "MASTER_ADDR", "10.0.0.1");
  const auto refused = launch_info(open);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::refused);
  EXPECT_NE(refused.error().message.find("TUTTI_SECRET"), std::string::npos);
  EXPECT_TRUE(launch_info(with(open, "TUTTI_SECRET", "s")));
  EXPECT_TRUE(launch_info(with(open, "TUTTI_INSECURE", "1")));
  EXPECT_TRUE(launch_info(with(kTorchrun, "MASTER_ADDR", "::1")));
}

TEST(Launch, WithoutALauncherSaysHowToStart) {
  const auto none = launch_info({});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
}

TEST(Launch, ASingleRankNeedsNoAddress) {
  const auto launch = launch_info({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "1"}});
  ASSERT_TRUE(launch) << launch.error().message;
  auto info = rendezvous(*launch, Deadline::in(10));
  ASSERT_TRUE(info);
  EXPECT_TRUE(join(*info));
}

TEST(Nodelist, ExpandsRangesListsAndZeros) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_nodelist("node[1-3,7]").value(), (Names{"node1", "node2", "node3", "node7"}));
  EXPECT_EQ(expand_nodelist("gpu[08-11],login").value(), (Names{"gpu08", "gpu09", "gpu10", "gpu11", "login"}));
  EXPECT_EQ(expand_nodelist("r[1-2]n[1-2]-ib").value(), (Names{"r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"}));
  EXPECT_EQ(expand_nodelist("single").value(), Names{"single"});
}

TEST(Nodelist, RefusesWhatIsNone) {
  for (const char* text :
       {"", ",", "n[1-", "n]1[", "n[]", "n[3-1]", "n[a-b]", "n[1-99999999]", "n[[1]]", "n[1-999]m[1-999]", "a,,b"})
    EXPECT_FALSE(expand_nodelist(text)) << text;
}

TEST(Nodelist, ExpandsTasksPerNode) {
  EXPECT_EQ(expand_tasks_per_node("4(x2),1").value(), (std::vector<int>{4, 4, 1}));
  for (const char* text : {"", "x", "4(x", "4(x)", "4(2)", "4(x999999999)"})
    EXPECT_FALSE(expand_tasks_per_node(text)) << text;
}

TEST(Pmi, FieldsAreFoundByTheirWholeName) {
  EXPECT_EQ(pmi_field("cmd=get_result rc=0 msg=success value=a=b", "value"), "a=b");
  EXPECT_EQ(pmi_field("cmd=get_result rc=0", "value"), "");
  EXPECT_EQ(pmi_field("xvalue=1 value=2", "value"), "2");
}

// A process manager of two processes, as Hydra's wire protocol has it.
void manage(int descriptor, std::string& stored, bool answers_barrier) {
  std::string line;
  char letter = 0;
  while (::read(descriptor, &letter, 1) == 1) {
    if (letter != '\n') {
      line += letter;
      continue;
    }
    const std::string command = pmi_field(line, "cmd");
    std::string answer;
    if (command == "get_my_kvsname") answer = "cmd=my_kvsname kvsname=space\n";
    if (command == "put") stored = pmi_field(line, "value");
    if (command == "put") answer = "cmd=put_result rc=0 msg=success\n";
    if (command == "barrier_in" && answers_barrier) answer = "cmd=barrier_out\n";
    if (command == "get") answer = "cmd=get_result rc=0 msg=success value=" + stored + "\n";
    ASSERT_EQ(::write(descriptor, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
    line.clear();
  }
}

TEST(Pmi, CarriesRankZerosValue) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Fd ours(ends[0]);
  Fd managers(ends[1]);
  std::string stored;
  std::thread manager([&] { manage(managers.get(), stored, true); });
  const auto value = broadcast_by_pmi(ours.get(), 0, "tutti-0", "the-id", Deadline::in(5));
  ours.reset();
  manager.join();
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(*value, "the-id");
}

TEST(Pmi, EndsAtTheDeadlineWhenOthersDoNotCome) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Fd ours(ends[0]);
  Fd managers(ends[1]);
  std::string stored;
  std::thread manager([&] { manage(managers.get(), stored, false); });
  const auto value = broadcast_by_pmi(ours.get(), 0, "tutti-0", "the-id", Deadline::in(0.05));
  ours.reset();
  manager.join();
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, ErrorCode::timed_out);
}

}  // namespace
}  // namespace tutti
