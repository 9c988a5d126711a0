// One rank of a job that something bad happens to. It reduces in a loop until it is told to stop (a line on standard
// input of any rank) or a call fails, or makes the one call it is told (--call). It says on standard output, a line
// each, what it goes through:
//   ready                            it is in the loop, or about to make the one call
//   failed CODE PEER MESSAGE         a call failed
//   whole                            the communicator works after a split that failed
//   shrunk SIZE RANK                 shrink gave a communicator
//   right                            all results were right, to the end
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "known_reduction.hpp"
#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

struct Arguments {
  std::size_t count = 1 << 16;
  double timeout = 0;
  bool shrinks = false;
  Quorum quorum = Quorum::majority;  // of shrink
  bool lingers = false;              // after shrink, until it is told to stop
  int dies_in_shrink = -1;           // milliseconds after entering it
  bool forks_child = false;
  bool forbids_attach = false;
  bool sits_out = false;
  bool exits_early = false;
  std::string asynchronous;  // test: poll one operation; drop: leave it to itself
  bool splits = false;
  bool little_memory = false;  // none is left to map when it splits
  std::string copy;            // of the communicator: `destroy` it, or wait there, in a `collective` or a `recv`
  std::string call;            // empty: all_reduce, in the loop
  DataType type = DataType::float32;
  Operator op = Operator::sum;
  int root = 0;
  bool ahead = false;  // of --call, another call that needs nothing of the others
};

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void say_failed(const Error& error) {
  say(fmt::format("failed {} {} {}", name_of(error.code), error.peer, error.to_string()));
}

/// Cross-memory attach as some containers have it.
void forbid_attach() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    say(fmt::format("failed system -1 seccomp: errno {}", errno));
    std::_Exit(1);
  }
}

/// A worker such as data loaders make; it holds copies of all our descriptors.
void fork_child() {
  const pid_t child = ::fork();
  if (child != 0) return;
  // The rank's death does not end it, but the end of the test that holds our input does.
  pollfd input{STDIN_FILENO, 0, 0};
  while (::poll(&input, 1, -1) <= 0) {
  }
  std::_Exit(0);
}

bool told_to_stop() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

/// Buffers are of the size this rank believes in: one that is overrun by a peer's shows under a sanitizer.
Status make_call(Communicator& communicator, const Arguments& arguments) {
  const std::size_t bytes = arguments.count * size_of(arguments.type);
  const bool scatters = arguments.call == "reduce_scatter";
  const std::vector<std::byte> send(scatters ? bytes * static_cast<std::size_t>(communicator.size()) : bytes);
  std::vector<std::byte> recv(bytes);
  if (scatters)
    return communicator.reduce_scatter(send.data(), recv.data(), arguments.count, arguments.type, arguments.op);
  if (arguments.call == "all_reduce")
    return communicator.all_reduce(send.data(), recv.data(), arguments.count, arguments.type, arguments.op);
  if (arguments.call == "reduce")
    return communicator.reduce(send.data(), recv.data(), arguments.count, arguments.type, arguments.op, arguments.root);
  if (arguments.call == "broadcast")
    return communicator.broadcast(send.data(), recv.data(), arguments.count, arguments.type, arguments.root);
  // The third of its kind: two are right before.
  if (arguments.call == "send" || arguments.call == "recv") {
    for (int round = 0; round < 3; ++round) {
      const std::size_t count = round < 2 ? 1 : arguments.count;
      const DataType type = round < 2 ? DataType::uint8 : arguments.type;
      Status done = arguments.call == "send" ? communicator.send(send.data(), count, type, arguments.root)
                                             : communicator.recv(recv.data(), count, type, arguments.root);
      if (!done || round == 2) return done;
    }
  }
  return fail(ErrorCode::invalid_argument, fmt::format("no call '{}' here", arguments.call));
}

/// A rank whose own part of a call is done, such as the root of a broadcast, hears of trouble later.
Status call_and_hear(Communicator& communicator, const Arguments& arguments) {
  std::byte one{};
  if (arguments.ahead)
    if (Status done = communicator.broadcast(&one, &one, 1, DataType::uint8, communicator.rank()); !done) return done;
  Status known = make_call(communicator, arguments);
  for (; known && !told_to_stop(); known = communicator.status()) ::usleep(1000);
  return known;
}

/// One operation that nobody waits for.
Status leave_to_itself(Communicator& communicator, bool tests) {
  Result<Work> work = communicator.barrier_async();
  if (!work) return tl::unexpected(work.error());
  say("ready");
  while (tests ? !work->test() : communicator.status().has_value()) ::usleep(100);
  if (work->error() != nullptr) return tl::unexpected(*work->error());
  return communicator.status();
}

/// Bytes of address space that this process uses.
rlim_t used_addresses() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// Splits while this rank may have no address space left for another segment. All ranks are told why that fails, and go
/// on as before.
Status split_and_go_on(Communicator& communicator, bool little_memory) {
  constexpr rlim_t kSmallThings = 4 << 20;
  rlimit usual{};
  ::getrlimit(RLIMIT_AS, &usual);
  rlimit little = usual;
  little.rlim_cur = used_addresses() + kSmallThings;
  if (little_memory) ::setrlimit(RLIMIT_AS, &little);
  const auto parts = communicator.split(0);
  ::setrlimit(RLIMIT_AS, &usual);
  if (parts) return fail(ErrorCode::internal, "the split worked");
  say_failed(parts.error());
  if (Status met = communicator.barrier(); !met) return met;
  const auto again = communicator.split(0);
  if (!again) return tl::unexpected(again.error());
  if (Status met = (*again)->barrier(); !met) return met;
  say("whole");
  return {};
}

/// Duplicates the communicator. One rank destroys the copy and lives on; the others wait for it there, and must hear
/// that it has left.
Status use_copy(Communicator& communicator, const std::string& how) {
  auto copy = communicator.duplicate();
  if (!copy) return tl::unexpected(copy.error());
  if (Status met = copy->barrier(); !met) return met;
  if (how == "destroy") {
    copy = fail(ErrorCode::aborted, "the copy is gone");
    say("ready");
    while (!told_to_stop()) ::usleep(1000);
    return {};
  }
  say("ready");
  int value = 0;
  return how == "recv" ? copy->recv(&value, 1, DataType::int32, 1) : copy->barrier();
}

Status reduce_until_told(Communicator& communicator, const Arguments& arguments) {
  integration::KnownReduction reduction(communicator, arguments.count);
  for (int round = 0;; ++round) {
    const Result<bool> told = reduction.run(told_to_stop());
    if (!told) return tl::unexpected(told.error());
    if (round == 10) say("ready");
    if (arguments.exits_early && round == 20) std::exit(0);
    if (*told) return {};
  }
}

void die_later(int milliseconds) {
  std::thread([milliseconds] {
    ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
    ::raise(SIGKILL);
  }).detach();
}

int go_on(Communicator& broken, const Arguments& arguments) {
  if (arguments.dies_in_shrink >= 0) die_later(arguments.dies_in_shrink);
  ShrinkOptions options;
  options.quorum = arguments.quorum;
  Result<Communicator> left = broken.shrink(options);
  if (!left) {
    say_failed(left.error());
    while (arguments.lingers && !told_to_stop()) ::usleep(1000);
    return 1;
  }
  const int rank = left->rank();
  const int size = left->size();
  say(fmt::format("shrunk {} {}", size, rank));
  int sum = 0;
  if (Status done = left->all_reduce(&rank, &sum, 1, DataType::int32, Operator::sum); !done) {
    say_failed(done.error());
    // Another may have died since: go on again.
    return done.error().code == ErrorCode::rank_died ? go_on(*left, arguments) : 1;
  }
  if (sum != size * (size - 1) / 2) return 1;
  if (arguments.lingers)
    if (Status done = reduce_until_told(*left, arguments); !done) {
      say_failed(done.error());
      return 1;
    }
  say("right");
  return 0;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("One rank of a job that something bad happens to.");
  app.add_option("--count", arguments.count, "elements");
  app.add_option("--timeout", arguments.timeout, "seconds an operation may take");
  app.add_flag("--shrink", arguments.shrinks, "go on with the survivors");
  app.add_option("--quorum", arguments.quorum, "majority or with_rank_0")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Quorum>{{"majority", Quorum::majority}, {"with_rank_0", Quorum::with_rank_0}}));
  app.add_flag("--linger", arguments.lingers, "after shrink, until told to stop");
  app.add_option("--die-in-shrink", arguments.dies_in_shrink, "milliseconds after entering it");
  app.add_flag("--fork-child", arguments.forks_child);
  app.add_flag("--forbid-attach", arguments.forbids_attach);
  app.add_flag("--sit-out", arguments.sits_out, "enter nothing until told to stop");
  app.add_flag("--exit-early", arguments.exits_early, "exit, without a word, in the loop");
  app.add_option("--async", arguments.asynchronous, "test: poll an operation; drop: leave it to itself");
  app.add_flag("--split", arguments.splits, "split, which is to fail, then go on");
  app.add_flag("--little-memory", arguments.little_memory, "have none left for --split");
  app.add_option("--copy", arguments.copy, "destroy: a copy of the communicator; collective, recv: on one");
  app.add_option("--call", arguments.call, "all_reduce, reduce_scatter, reduce, broadcast, send or recv: call it once");
  app.add_option("--type", arguments.type, "of --call")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, DataType>{{"float32", DataType::float32}, {"int32", DataType::int32}}));
  app.add_option("--operator", arguments.op, "of --call")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Operator>{{"sum", Operator::sum}, {"max", Operator::max}}));
  app.add_option("--root", arguments.root, "of --call");
  app.add_flag("--ahead", arguments.ahead, "broadcast something before --call, as the only rank");
  CLI11_PARSE(app, argc, argv);
  if (arguments.forbids_attach) forbid_attach();
  Options options = Options::from_environment();
  options.timeout = arguments.timeout;
  // Never destroyed, and reachable to the end: a rank that is about to die does not clean up.
  static auto* const communicator = new Result<Communicator>(Communicator::create_from_environment(options));
  if (!*communicator) {
    say_failed(communicator->error());
    return 1;
  }
  if (arguments.forks_child) fork_child();
  if (arguments.sits_out) {
    say("ready");
    while (!told_to_stop()) ::usleep(1000);
    return 0;
  }
  if (!arguments.call.empty()) {
    if (Status met = (*communicator)->barrier(); !met) say_failed(met.error());
    say("ready");
  }
  const auto work = [&]() -> Status {
    if (!arguments.asynchronous.empty()) return leave_to_itself(**communicator, arguments.asynchronous == "test");
    if (arguments.splits) return split_and_go_on(**communicator, arguments.little_memory);
    if (!arguments.copy.empty()) return use_copy(**communicator, arguments.copy);
    if (!arguments.call.empty()) return call_and_hear(**communicator, arguments);
    return reduce_until_told(**communicator, arguments);
  };
  if (Status done = work(); !done) {
    say_failed(done.error());
    return arguments.shrinks ? go_on(**communicator, arguments) : 1;
  }
  say("right");
  return 0;
}

}  // namespace
}  // namespace tutti::integration

int main(int argc, char** argv) { return tutti::integration::run(argc, argv); }
