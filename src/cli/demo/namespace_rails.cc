#include "cli/demo/namespace_rails.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>

#include "base/clock.hpp"
#include "cli/support/launch.hpp"

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

}  // namespace

NamespaceRails::~NamespaceRails() {
  for (RankProcess& rank : ranks_) {
    rank.signal(SIGKILL);
    reap(rank, 0);
  }
}

std::string NamespaceRails::title() const {
  return fmt::format("{} between two hosts (network namespaces) with two rails{};",
                     options_.one_way ? "broadcast of 8M" : "all-reduce of 1M",
                     shaped_ ? "\nof 1 Gb/s between them" : " between them");
}

double NamespaceRails::now() const { return monotonic() - start_; }

Status NamespaceRails::set_link(int rail, bool up) {
  return run_quietly({"ip", "link", "set", name_of(rail), up ? "up" : "down"});
}

Status NamespaceRails::shape(const char* verb, int rail, double share) const {
  return run_quietly({"tc", "qdisc", verb, "dev", name_of(rail), "root", "tbf", "rate",
                      fmt::format("{:.0f}mbit", 1000 * share), "burst", options_.fine ? "32kb" : "128kb", "limit",
                      options_.fine ? "256kb" : "512kb"});
}

Status NamespaceRails::set_share(int rail, double share) {
  return hosts_[0].inside([&] { return shape("change", rail, share); });
}

Status NamespaceRails::open() {
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
  return start_ranks();
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
  if (options_.fine) (void)run_quietly({"ip", "link", "set", name, "gso_max_size", "16384"});
  if (!shape("add", rail, 1)) shaped_ = false;
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

Status NamespaceRails::start_ranks() {
  auto job = JobDescription::create(kHosts);
  if (!job) return tl::unexpected(job.error());
  job->address = address_of(0, 0) + ":29400";
  for (int host = 0; host < kHosts; ++host) {
    SpawnOptions options;
    options.command = {own_executable(), "demo", options_.one_way ? "--stream-rank" : "--rails-rank",
                       fmt::format("{}", options_.seconds + kSpare)};
    options.environment = {{"TUTTI_LOCAL_RANK", "0"},
                           {"TUTTI_LOCAL_SIZE", "1"},
                           {"TUTTI_HOST_ID", fmt::format("demo-{}-{}", ::getpid(), host)},
                           {"TUTTI_INTERFACES", "rail"},
                           {"TUTTI_LOG", "error"}};
    options.environment.insert(options.environment.end(), options_.environment.begin(), options_.environment.end());
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

Result<std::unique_ptr<NamespaceRails>> open_rails(const NamespaceRailsOptions& options, Interrupts& interrupts) {
  if (::geteuid() != 0) return fail(ErrorCode::unsupported, "network namespaces need root");
  auto rails = std::make_unique<NamespaceRails>(options, interrupts);
  if (auto opened = rails->open(); !opened) return tl::unexpected(opened.error());
  return rails;
}

}  // namespace tutti::cli
