#include "control/control.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/thread.hpp"
#include "control/process_watch.hpp"
#include "net/interfaces.hpp"

namespace tutti {
namespace {

// A turn that is later than this, in seconds or as a part of the heartbeat time-out, is this process's own absence.
constexpr double kAbsence = 0.05;
constexpr double kAbsencePart = 0.02;
constexpr std::chrono::milliseconds kInterruptCheck(20);  // between checks of whether a wait was interrupted

// Where to listen, and under which addresses others find it.
struct ControlPorts {
  std::vector<SocketAddress> listen;
  std::vector<SocketAddress> published;  // port 0: that of the listener of the same family
};

Result<ControlPorts> ports_of(const ControlOptions& options, const JobKey& key) {
  if (!options.listen.empty()) return ControlPorts{options.listen, options.listen};
  auto chosen = chosen_interfaces(options.sockets->interfaces());
  if (!chosen) return tl::unexpected(chosen.error());
  ControlPorts ports;
  for (const Interface& interface : *chosen)
    for (const SocketAddress& address : interface.addresses) {
      // Without a secret nobody from outside may come in; those of this host come by loopback.
      const SocketAddress usable = key.allows(address) ? address : SocketAddress::loopback(address.family());
      const SocketAddress listen = key.allows(address) ? SocketAddress::any(address.family()) : usable;
      if (std::find(ports.listen.begin(), ports.listen.end(), listen) == ports.listen.end())
        ports.listen.push_back(listen);
      if (std::find(ports.published.begin(), ports.published.end(), usable) == ports.published.end())
        ports.published.push_back(usable);
    }
  return ports;
}

}  // namespace

Control::Control(const std::string& secret, const ControlOptions& options, double heartbeat_timeout)
    : owner_(::getpid()),
      sockets_(*options.sockets),
      loop_(std::max(kAbsence, heartbeat_timeout * kAbsencePart), options.clock),
      subscriptions_(loop_, roster_, options.pulse),
      connections_(loop_, JobKey(secret), options.stranger_patience, sockets_),
      world_(loop_, connections_, mailbox_, roster_,
             {[this](int process, const Death& death) { subscriptions_.died(process, death); },
              [this](int process) { subscriptions_.left(process); }},
             heartbeat_timeout) {}

Result<std::unique_ptr<Control>> Control::start(const std::string& secret, ControlOptions options) {
  const double timeout = options.heartbeat_timeout > 0 ? options.heartbeat_timeout : settings().heartbeat_timeout;
  std::unique_ptr<Control> control(new Control(secret, options, timeout));
  auto ports = ports_of(options, JobKey(secret));
  if (!ports) return tl::unexpected(ports.error());
  if (auto opened = control->loop_.open(); !opened) return tl::unexpected(opened.error());
  control->connections_.set_events(control->world_.events());
  auto bound = control->listen(ports->listen);
  if (!bound) return tl::unexpected(bound.error());
  control->listen_locally();

  ControlPeer& self = control->self_;
  self.id = options.id;
  self.pid = ::getpid();
  self.start_time = start_time_of(self.pid).value_or(0);
  self.local_path = control->local_.path();
  self.host = options.host.empty() ? host_identity() : options.host;
  for (const SocketAddress& address : ports->published)
    for (const SocketAddress& listener : *bound)
      if (listener.family() == address.family() && (listener.is_any() || listener.host() == address.host())) {
        self.addresses.push_back(address.with_port(listener.port()));
        break;
      }
  auto thread = start_thread("tutti-control", [raw = control.get()] { raw->run(); });
  if (!thread) return tl::unexpected(thread.error());
  control->thread_ = std::move(*thread);
  return control;
}

// Returns where, with ports.
Result<std::vector<SocketAddress>> Control::listen(const std::vector<SocketAddress>& addresses) {
  std::vector<SocketAddress> bound;
  for (const SocketAddress& address : addresses) {
    auto opened = sockets_.listen(address);
    if (!opened) return tl::unexpected(opened.error());
    bound.push_back(opened->address);
    if (auto listens = connections_.listen(std::move(opened->socket)); !listens) return tl::unexpected(listens.error());
  }
  return bound;
}

// Only detours need it.
void Control::listen_locally() {
  auto local = sockets_.listen_locally(ProcessId::random());
  if (!local) return log::info("the control plane has no local listener: {}", local.error().message);
  local_ = std::move(*local);
  const auto listens = connections_.listen(local_.take_listener());
  if (listens) return;
  log::info("the control plane has no local listener: {}", listens.error().message);
  local_ = LocalListener();
}

bool Control::is_open() {
  if (forked()) return false;
  const std::lock_guard lock(mutex_);
  return joined_ && !stopped_;
}

bool Control::forked() const { return ::getpid() != owner_; }

Control::~Control() {
  if (forked()) {
    // The thread stayed with the parent.
    if (thread_.joinable()) thread_.detach();
    return;
  }
  leave();
}

void Control::run() {
  while (running_) {
    double next = world_.tick();
    next = std::min({next, connections_.tick(), subscriptions_.tick()});  // after what was dialed just now
    if (running_) loop_.run_once(next);
  }
}

Status Control::join(std::vector<ControlPeer> all, int self, Deadline deadline,
                     const std::function<Status()>& interrupted) {
  if (forked()) return fail(ErrorCode::unsupported, "this process was forked from the one that started the control");
  if (self < 0 || static_cast<std::size_t>(self) >= all.size() || all[self].id != self_.id)
    return fail(ErrorCode::invalid_argument, fmt::format("process {} of {} is not this one", self, all.size()));
  const auto result = std::make_shared<std::promise<Status>>();
  {
    const std::lock_guard lock(mutex_);
    if (joined_ || stopped_) return fail(ErrorCode::invalid_argument, "this control has joined a world already");
    joined_ = true;
    // Under the lock, so that it is posted before leave() stops the thread.
    loop_.post([this, all = std::move(all), self, seconds = deadline.seconds_left(), result] {
      world_.join(all, self, seconds, [result](const Status& status) { result->set_value(status); });
    });
  }
  std::future<Status> done = result->get_future();
  while (interrupted && done.wait_for(kInterruptCheck) != std::future_status::ready)
    if (Status going_on = interrupted(); !going_on) return going_on;
  return done.get();
}

void Control::on_message(std::uint64_t topic, MessageHandler handler) {
  if (forked()) return;
  mailbox_.set(topic, std::move(handler));
  loop_.post([this, topic] { mailbox_.open(topic); });
}

void Control::remove_topic(std::uint64_t topic) {
  if (forked()) return;
  mailbox_.remove(topic);
  loop_.post([this, topic] { mailbox_.retire(topic); });
}

Status Control::check(int process, std::span<const std::byte> bytes) const {
  if (process < 0 || process >= roster_.size())
    return fail(ErrorCode::invalid_argument,
                fmt::format("there is no process {} in a world of {}", process, roster_.size()));
  if (bytes.size() > kMessageLimit)
    return fail(ErrorCode::invalid_argument,
                fmt::format("a control message of {} bytes; the limit is {}", bytes.size(), kMessageLimit));
  return {};
}

Status Control::send(int process, std::uint64_t topic, std::span<const std::byte> bytes) {
  if (forked()) return {};
  if (auto checked = check(process, bytes); !checked) return checked;
  loop_.post([this, process, topic, copy = std::vector<std::byte>(bytes.begin(), bytes.end())] {
    world_.send(process, topic, copy);
  });
  return {};
}

Status Control::broadcast(std::uint64_t topic, std::span<const std::byte> bytes, std::vector<int> to) {
  if (forked()) return {};
  if (auto checked = check(0, bytes); !checked) return checked;
  for (const int process : to)
    if (auto checked = check(process, {}); !checked) return checked;
  loop_.post([this, topic, to = std::move(to), copy = std::vector<std::byte>(bytes.begin(), bytes.end())] {
    world_.broadcast(topic, copy, to);
  });
  return {};
}

Control::Subscription Control::on_death(DeathHandler handler) {
  return forked() ? 0 : subscriptions_.on_death(std::move(handler));
}

Control::Subscription Control::on_leave(LeaveHandler handler) {
  return forked() ? 0 : subscriptions_.on_leave(std::move(handler));
}

Control::Subscription Control::on_pulse(std::function<void()> handler) {
  return forked() ? 0 : subscriptions_.on_pulse(std::move(handler));
}

void Control::unsubscribe(Subscription subscription) {
  if (!forked()) subscriptions_.remove(subscription);
}

void Control::leave() {
  if (forked()) return;
  const std::lock_guard one_at_a_time(leave_mutex_);
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  if (!thread_.joinable()) return;
  loop_.post([this] { world_.leave([this](const Status&) { running_ = false; }); });
  thread_.join();
}

}  // namespace tutti
