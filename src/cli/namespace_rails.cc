#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>

#include "base/clock.hpp"
#include "cli/launch.hpp"
#include "cli/network_namespace.hpp"
#include "cli/rails.hpp"
#include "cli/spawn.hpp"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHosts = 2;
constexpr double kPatience = 20.0;  // seconds until ranks must have met, and must have ended
constexpr double kCarrier = 2.0;    // seconds: the kernel tells of a new one up to a second late
constexpr double kSpare = 0.5;      // seconds of traffic after the scene's end

std::string name_of(int rail) { return fmt::format("rail{}", rail); }
std::string address_of(int host, int rail) { return fmt::format("198.18.{}.{}", rail, host + 1); }

double monotonic() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// BBR, where it is the default, takes the first packets through a token bucket for the speed of the rail. A namespace
// may be refused cubic, reno never.
void use_plain_tcp() {
  for (const char* wanted : {"cubic", "reno"}) {
    std::ofstream file("/proc/sys/net/ipv4/tcp_congestion_control");
    if (file << wanted << std::flush) return;
  }
}

class NamespaceRails final : public Rails {
 public:
  explicit NamespaceRails(Interrupts& interrupts) : interrupts_(interrupts) {}
  ~NamespaceRails() override {
    for (RankProcess& rank : ranks_) {
      rank.signal(SIGKILL);
      reap(rank, 0);
    }
  }

  Status open(double seconds);

  std::string title() const override {
    return fmt::format("all-reduce of 1M between two hosts (network namespaces) with two rails{};",
                       shaped_ ? "\nof 1 Gb/s between them" : " between them");
  }
  std::string operations() const override { return "all-reduces"; }
  double now() const override { return monotonic() - start_; }
  Status flow_until(double seconds) override;
  std::array<std::uint64_t, kRails> sent() override;
  Status set_rail(int rail, bool up) override {
    return hosts_[1].inside([&] { return set_link(rail, up); });
  }
  Status finish() override;

 private:
  Status plug_in(int rail);
  Status set_up(int host, int rail);
  static Status set_link(int rail, bool up) {
    return run_quietly({"ip", "link", "set", name_of(rail), up ? "up" : "down"});
  }
  Status await_carriers();
  Status start(double seconds);
  Status read_ends(int milliseconds);
  void take_lines();
  bool reap(RankProcess& rank, int flags);
  Error why() const;

  Interrupts& interrupts_;
  std::vector<NetworkNamespace> hosts_;
  std::vector<RankProcess> ranks_;
  std::string unread_;
  std::optional<double> first_end_;
  double start_ = 0;
  bool shaped_ = true;
};

Status NamespaceRails::open(double seconds) {
  for (int host = 0; host < kHosts; ++host) {
    auto made = NetworkNamespace::create();
    if (!made) return tl::unexpected(made.error());
    hosts_.push_back(std::move(*made));
    Status lo = hosts_.back().inside([] {
      use_plain_tcp();
      return run_quietly({"ip", "link", "set", "lo", "up"});
    });
    if (!lo) return lo;
  }
  for (int rail = 0; rail < kRails; ++rail)
    if (auto plugged = plug_in(rail); !plugged) return plugged;
  if (auto carried = await_carriers(); !carried) return carried;
  return start(seconds);
}

Status NamespaceRails::plug_in(int rail) {
  const std::string name = name_of(rail);
  Status made = hosts_[0].inside([&] {
    return run_quietly({"ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", hosts_[1].path()});
  });
  for (int host = 0; host < kHosts && made; ++host)
    made = hosts_[static_cast<std::size_t>(host)].inside([&] { return set_up(host, rail); });
  return made;
}

// A rail that cannot be shaped is faster than one can see, which is no reason to stop.
Status NamespaceRails::set_up(int host, int rail) {
  const std::string name = name_of(rail);
  if (!run_quietly(
          {"tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", "1gbit", "burst", "128kb", "limit", "512kb"}))
    shaped_ = false;
  const Status named = run_quietly({"ip", "addr", "add", address_of(host, rail) + "/24", "dev", name});
  return named ? set_link(rail, true) : named;
}

Status NamespaceRails::await_carriers() {
  const Deadline late = Deadline::in(kCarrier);
  for (const NetworkNamespace& host : hosts_)
    for (int rail = 0; rail < kRails; ++rail)
      for (bool running = false; !running && !late.passed();) {
        const Status looked = host.inside([&]() -> Status {
          running = is_running(name_of(rail));
          return {};
        });
        if (!looked) return looked;
        if (running) continue;
        if (auto slept = interrupts_.sleep(0.005); !slept) return slept;
      }
  return {};
}

Status NamespaceRails::start(double seconds) {
  auto job = Job::create(kHosts);
  if (!job) return tl::unexpected(job.error());
  job->address = address_of(0, 0) + ":29400";
  for (int host = 0; host < kHosts; ++host) {
    SpawnOptions options;
    options.command = {own_executable(), "demo", "--rails-rank", fmt::format("{}", seconds + kSpare)};
    options.environment = {{"TUTTI_LOCAL_RANK", "0"},
                           {"TUTTI_LOCAL_SIZE", "1"},
                           {"TUTTI_HOST_ID", fmt::format("demo-{}-{}", ::getpid(), host)},
                           {"TUTTI_INTERFACES", "rail"},
                           {"TUTTI_LOG", "error"}};
    const Status started = hosts_[static_cast<std::size_t>(host)].inside([&]() -> Status {
      auto rank = spawn(*job, host, options);
      if (!rank) return tl::unexpected(rank.error());
      ranks_.push_back(std::move(*rank));
      return {};
    });
    if (!started) return started;
  }
  const Deadline late = Deadline::in(kPatience);
  while (!first_end_) {
    if (late.passed()) return fail(ErrorCode::timed_out, "the ranks did not meet");
    if (auto read = read_ends(late.poll_milliseconds()); !read) return read;
  }
  start_ = *first_end_;
  return {};
}

Status NamespaceRails::flow_until(double seconds) {
  while (now() < seconds) {
    const auto left = static_cast<int>((seconds - now()) * 1e3) + 1;
    if (auto read = read_ends(left); !read) return read;
  }
  return {};
}

Status NamespaceRails::read_ends(int milliseconds) {
  pollfd entries[] = {{ranks_[0].out.get(), POLLIN, 0}, {interrupts_.descriptor(), POLLIN, 0}};
  ::poll(entries, 2, milliseconds);
  if (auto undisturbed = interrupts_.check(); !undisturbed) return undisturbed;
  if (entries[0].revents == 0) return {};
  char buffer[4096];
  const ssize_t got = ::read(ranks_[0].out.get(), buffer, sizeof buffer);
  if (got == 0) return tl::unexpected(why());
  if (got > 0) unread_.append(buffer, static_cast<std::size_t>(got));
  take_lines();
  return {};
}

void NamespaceRails::take_lines() {
  for (std::size_t end = 0; (end = unread_.find('\n')) != std::string::npos; unread_.erase(0, end + 1)) {
    const double seconds = std::stod(unread_.substr(0, end)) * 1e-9;
    if (!first_end_) first_end_ = seconds;
    ends_.push_back(seconds - *first_end_);
  }
}

/// What the ranks said as they ended.
Error NamespaceRails::why() const {
  std::string said;
  for (const RankProcess& rank : ranks_) {
    char buffer[1024];
    const ssize_t got = ::read(rank.err.get(), buffer, sizeof buffer);
    if (got > 0 && said.empty()) said.assign(buffer, static_cast<std::size_t>(got));
  }
  while (said.ends_with('\n')) said.pop_back();
  return fail(ErrorCode::system, said.empty() ? "a rank ended early" : said).value();
}

std::array<std::uint64_t, kRails> NamespaceRails::sent() {
  std::array<std::uint64_t, kRails> bytes{};
  std::ifstream file(fmt::format("/proc/{}/net/dev", ranks_[0].pid));
  for (std::string line; std::getline(file, line);) {
    for (int rail = 0; rail < kRails; ++rail) {
      const std::size_t name = line.find(name_of(rail) + ":");
      if (name == std::string::npos) continue;
      std::istringstream counters(line.substr(line.find(':') + 1));
      for (int column = 0; column < 9; ++column) counters >> bytes[static_cast<std::size_t>(rail)];
    }
  }
  return bytes;
}

bool NamespaceRails::reap(RankProcess& rank, int flags) {
  if (!rank.ended) rank.ended = ::waitpid(rank.pid, &rank.wait_status, flags) == rank.pid;
  return rank.ended;
}

Status NamespaceRails::finish() {
  const Deadline late = Deadline::in(kPatience);
  for (RankProcess& rank : ranks_) {
    while (!reap(rank, WNOHANG)) {
      if (late.passed()) return fail(ErrorCode::timed_out, "a rank does not end");
      // What rank 0 writes until then must have room.
      if (auto read = read_ends(5); !read && read.error().code == ErrorCode::aborted) return read;
    }
    if (rank.wait_status != 0) return tl::unexpected(why());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Rails>> open_rails(double seconds, Interrupts& interrupts) {
  if (::geteuid() != 0) return fail(ErrorCode::unsupported, "network namespaces need root");
  auto rails = std::make_unique<NamespaceRails>(interrupts);
  if (auto opened = rails->open(seconds); !opened) return tl::unexpected(opened.error());
  return rails;
}

}  // namespace tutti::cli
