// The functions of the C library that the code under test calls to wait, to take the time, or to use descriptors,
// threads and locks. While a simulated thread runs they are calls of the simulated kernel; otherwise they do what they
// always do. The linker prefers these to the library's, also for calls from within libstdc++.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "kernel.hpp"
#include "network.hpp"

using tutti::simulated::Address;
using tutti::simulated::Epoll;
using tutti::simulated::Event;
using tutti::simulated::File;
using tutti::simulated::Kernel;
using tutti::simulated::kForever;
using tutti::simulated::kMicrosecond;
using tutti::simulated::kMillisecond;
using tutti::simulated::kSecond;
using tutti::simulated::Network;
using tutti::simulated::PortNews;
using tutti::simulated::Process;
using tutti::simulated::ProcessEndFile;
using tutti::simulated::Socket;
using tutti::simulated::Thread;
using tutti::simulated::Time;

namespace {

constexpr Time kCall = 200;  // nanoseconds that a call of the kernel takes
constexpr Time kClock = 25;  // and one that only reads the clock
constexpr Time kLock = 15;

/// The library's own function of that name.
template <typename Function>
Function* library(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define LIBRARY(name)                          \
  static decltype(::name)* function = nullptr; \
  if (function == nullptr) function = library<decltype(::name)>(#name)

int fail(int error) {
  errno = error;
  return -1;
}

/// Whether the call is one of the simulated kernel's; takes its time, if so.
Kernel* kernel_for(int descriptor) {
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr || !Kernel::is_simulated(descriptor)) return nullptr;
  kernel->spend(kCall);
  return kernel;
}

template <typename Kind>
std::shared_ptr<Kind> file_of(Kernel& kernel, int descriptor, const char* call) {
  auto file = kernel.find_as<Kind>(descriptor);
  if (!file) {
    if (!kernel.find(descriptor)) kernel.fail(fmt::format("{}() of a descriptor that is closed", call));
    errno = EBADF;
  }
  return file;
}

int open_file(Kernel& kernel, std::shared_ptr<File> file) {
  const int descriptor = kernel.open(std::move(file));
  return descriptor < 0 ? fail(EMFILE) : descriptor;
}

Time time_of(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
timespec timespec_of(Time time) { return {time / kSecond, time % kSecond}; }
Time process_time(const Kernel& kernel) { return kernel.now() + Kernel::process().clock_ahead; }

Address address_from(const sockaddr* address) {
  if (address->sa_family == AF_UNIX) return {-1, -1, 0, reinterpret_cast<const sockaddr_un*>(address)->sun_path};
  return Network::address_of(*reinterpret_cast<const sockaddr_in*>(address));
}

void store_address(const Address& address, int domain, sockaddr* to, socklen_t* length) {
  if (to == nullptr || length == nullptr) return;
  if (domain == AF_UNIX) {
    to->sa_family = AF_UNIX;
    *length = sizeof(sa_family_t);
    return;
  }
  const sockaddr_in raw = Network::raw(address);
  std::memcpy(to, &raw, std::min<std::size_t>(*length, sizeof raw));
  *length = sizeof raw;
}

void lock(Kernel& kernel, pthread_mutex_t* mutex) {
  while (mutex->__data.__lock != 0) kernel.block("pthread_mutex_lock", kForever, mutex);
  mutex->__data.__lock = 1;
  ++Kernel::thread().locks_held;
}

void unlock(Kernel& kernel, pthread_mutex_t* mutex) {
  mutex->__data.__lock = 0;
  --Kernel::thread().locks_held;
  kernel.wake_waiting(mutex, 1);
}

int wait_for_condition(Kernel& kernel, pthread_cond_t* condition, pthread_mutex_t* mutex, Time deadline) {
  unlock(kernel, mutex);
  const bool woken = kernel.block("pthread_cond_wait", deadline, condition);
  lock(kernel, mutex);
  return woken ? 0 : ETIMEDOUT;
}

/// Waits for events on descriptors; returns how many have some.
int wait_for_events(Kernel& kernel, pollfd* entries, nfds_t count, Time deadline) {
  while (true) {
    int ready = 0;
    std::vector<File*> files;
    std::vector<std::shared_ptr<File>> kept;
    for (nfds_t i = 0; i < count; ++i) {
      entries[i].revents = 0;
      const auto file = kernel.find(entries[i].fd);
      if (!file) {
        entries[i].revents = POLLNVAL;
      } else {
        const auto wanted = static_cast<std::uint32_t>(entries[i].events) | POLLERR | POLLHUP;
        entries[i].revents = static_cast<short>(file->ready() & wanted);
        files.push_back(file.get());
        kept.push_back(file);
      }
      if (entries[i].revents != 0) ++ready;
    }
    if (ready > 0 || deadline <= kernel.now()) return ready;
    kernel.block_on("poll", files, deadline);
  }
}

Time deadline_in(const Kernel& kernel, Time duration) { return duration < 0 ? kForever : kernel.now() + duration; }

/// Bound by path, as LocalListener does it, and then found by the number of a descriptor.
class PathFile final : public File {
 public:
  explicit PathFile(std::string bound) : path(std::move(bound)) {}
  std::uint32_t ready() const override { return 0; }
  std::string path;
};

}  // namespace

extern "C" {

// Time.

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  LIBRARY(clock_gettime);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(clock, time);
  kernel->spend(kClock);
  *time = timespec_of(process_time(*kernel));
  return 0;
}

int nanosleep(const timespec* time, timespec* rest) {
  LIBRARY(nanosleep);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(time, rest);
  kernel->block("nanosleep", kernel->now() + std::max<Time>(time_of(*time), 1));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  LIBRARY(clock_nanosleep);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(clock, flags, time, rest);
  const Time until =
      flags == TIMER_ABSTIME ? time_of(*time) - Kernel::process().clock_ahead : kernel->now() + time_of(*time);
  kernel->block("clock_nanosleep", until);
  return 0;
}

int usleep(useconds_t microseconds) {
  LIBRARY(usleep);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(microseconds);
  kernel->block("usleep", kernel->now() + microseconds * kMicrosecond);
  return 0;
}

int sched_yield() noexcept {
  LIBRARY(sched_yield);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function();
  kernel->spend(kCall);
  tutti::simulated::Fiber::yield();
  return 0;
}

// Threads and locks.

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  LIBRARY(pthread_create);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(thread, attributes, body, argument);
  kernel->spend(10 * kCall);
  Process& process = Kernel::process();
  if (process.thread_failures > 0) {
    --process.thread_failures;
    process.lacked_threads = true;
    return EAGAIN;
  }
  *thread = kernel->start_thread(process, "thread", [=] { body(argument); }).fiber->self();
  return 0;
}

int pthread_join(pthread_t other, void** result) {
  LIBRARY(pthread_join);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(other, result);
  Thread* const joined = kernel->find_thread(other);
  if (joined == nullptr) return ESRCH;
  while (joined->state != Thread::State::ended) {
    joined->joiner = &Kernel::thread();
    kernel->block("pthread_join", kForever);
  }
  return 0;
}

int pthread_detach(pthread_t other) noexcept {
  LIBRARY(pthread_detach);
  return Kernel::running() == nullptr ? function(other) : 0;
}

int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  LIBRARY(pthread_setname_np);
  if (Kernel::running() == nullptr) return function(thread, name);
  Kernel::thread().name = name;
  return 0;
}

int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  LIBRARY(pthread_sigmask);
  return Kernel::running() == nullptr ? function(how, set, before) : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  LIBRARY(pthread_mutex_lock);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(mutex);
  kernel->spend(kLock);
  lock(*kernel, mutex);
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  LIBRARY(pthread_mutex_trylock);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(mutex);
  kernel->spend(kLock);
  if (mutex->__data.__lock != 0) return EBUSY;
  lock(*kernel, mutex);
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  LIBRARY(pthread_mutex_unlock);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(mutex);
  unlock(*kernel, mutex);
  kernel->spend(kLock);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  LIBRARY(pthread_cond_wait);
  Kernel* const kernel = Kernel::running();
  return kernel == nullptr ? function(condition, mutex) : wait_for_condition(*kernel, condition, mutex, kForever);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  LIBRARY(pthread_cond_clockwait);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(condition, mutex, clock, until);
  return wait_for_condition(*kernel, condition, mutex, time_of(*until) - Kernel::process().clock_ahead);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  LIBRARY(pthread_cond_timedwait);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(condition, mutex, until);
  return wait_for_condition(*kernel, condition, mutex, time_of(*until) - Kernel::process().clock_ahead);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  LIBRARY(pthread_cond_signal);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(condition);
  kernel->wake_waiting(condition, 1);
  kernel->spend(kLock);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  LIBRARY(pthread_cond_broadcast);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(condition);
  kernel->wake_waiting(condition, INT32_MAX);
  kernel->spend(kLock);
  return 0;
}

long syscall(long number, ...) noexcept {
  LIBRARY(syscall);
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  Kernel* const kernel = Kernel::running();
  if (kernel != nullptr && number == SYS_futex) {
    kernel->spend(kCall);
    auto* const word = reinterpret_cast<std::uint32_t*>(a[0]);
    const int operation = static_cast<int>(a[1]) & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    if (operation == FUTEX_WAKE) return kernel->wake_waiting(word, static_cast<int>(a[2]));
    if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) kernel->fail("an unknown futex operation");
    if (*word != static_cast<std::uint32_t>(a[2])) return fail(EAGAIN);
    const auto* const limit = reinterpret_cast<const timespec*>(a[3]);
    Time until = kForever;
    if (limit != nullptr && operation == FUTEX_WAIT) until = kernel->now() + time_of(*limit);
    if (limit != nullptr && operation == FUTEX_WAIT_BITSET) until = time_of(*limit) - Kernel::process().clock_ahead;
    return kernel->block("futex", until, word) ? 0 : fail(ETIMEDOUT);
  }
  if (kernel != nullptr && number == SYS_pidfd_open) {
    kernel->spend(kCall);
    for (const Process& each : kernel->processes()) {
      if (each.pid != a[0] || each.host != Kernel::process().host) continue;
      const auto file = std::make_shared<ProcessEndFile>(each);
      const_cast<Process&>(each).watchers.push_back(file);
      return each.dead ? fail(ESRCH) : open_file(*kernel, file);
    }
    return fail(ESRCH);
  }
  return function(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Who and where.

pid_t getpid() noexcept {
  LIBRARY(getpid);
  return Kernel::running() == nullptr ? function() : Kernel::process().pid;
}

ssize_t getrandom(void* bytes, size_t count, unsigned flags) {
  LIBRARY(getrandom);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(bytes, count, flags);
  for (size_t i = 0; i < count; ++i)
    static_cast<unsigned char*>(bytes)[i] = static_cast<unsigned char>(kernel->random()());
  return static_cast<ssize_t>(count);
}

int getrlimit(__rlimit_resource_t resource, rlimit* limit) noexcept {
  LIBRARY(getrlimit);
  if (Kernel::running() == nullptr || resource != RLIMIT_NOFILE) return function(resource, limit);
  limit->rlim_cur = limit->rlim_max = static_cast<rlim_t>(Kernel::process().descriptor_limit);
  return 0;
}

// The name space of processes tells hosts apart (host_identity()).
ssize_t readlink(const char* path, char* target, size_t size) noexcept {
  LIBRARY(readlink);
  if (Kernel::running() == nullptr || std::strcmp(path, "/proc/self/ns/pid") != 0) return function(path, target, size);
  const std::string text = fmt::format("host {}", Kernel::process().host);
  std::memcpy(target, text.data(), std::min(size, text.size()));
  return static_cast<ssize_t>(std::min(size, text.size()));
}

// When a process started is that of this program for all of them.
FILE* fopen64(const char* path, const char* mode) {
  LIBRARY(fopen64);
  constexpr const char* kProcess = "/proc/3";
  if (Kernel::running() == nullptr || std::strncmp(path, kProcess, std::strlen(kProcess)) != 0)
    return function(path, mode);
  return function("/proc/self/stat", mode);
}

int getifaddrs(ifaddrs** list) noexcept {
  LIBRARY(getifaddrs);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(list);
  kernel->spend(20 * kCall);
  const Network& network = Network::get();
  const int host = Kernel::process().host;
  *list = nullptr;
  for (int rail = network.rails() - 1; rail >= 0; --rail) {
    struct Entry {
      ifaddrs interface {};
      sockaddr_in address{};
      sockaddr_in mask{};
      char name[16] = {};
    };
    auto* const entry = new Entry;
    std::snprintf(entry->name, sizeof entry->name, "rail%d", rail);
    entry->address = Network::raw({host, rail, 0, {}});
    entry->mask.sin_family = AF_INET;
    entry->mask.sin_addr.s_addr = htonl(0xffffff00);
    entry->interface.ifa_name = entry->name;
    entry->interface.ifa_flags = IFF_UP | (network.is_up(host, rail) ? unsigned{IFF_RUNNING} : 0u);
    entry->interface.ifa_addr = reinterpret_cast<sockaddr*>(&entry->address);
    entry->interface.ifa_netmask = reinterpret_cast<sockaddr*>(&entry->mask);
    entry->interface.ifa_next = *list;
    *list = &entry->interface;
  }
  return 0;
}

void freeifaddrs(ifaddrs* list) noexcept {
  LIBRARY(freeifaddrs);
  if (Kernel::running() == nullptr) return function(list);  // what was listed in the simulation ends with it
}

// Descriptors.

int close(int descriptor) {
  LIBRARY(close);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor);
  if (kernel->close(descriptor)) return 0;
  kernel->fail("close() of a descriptor that is closed");
  return fail(EBADF);
}

int open(const char* path, int flags, ...) {
  LIBRARY(open);
  va_list list;
  va_start(list, flags);
  const int mode = va_arg(list, int);
  va_end(list);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr || std::strncmp(path, "/dev/shm/tutti-listener", 23) != 0) return function(path, flags, mode);
  return open_file(*kernel, std::make_shared<PathFile>(path));
}

int unlink(const char* path) noexcept {
  LIBRARY(unlink);
  if (Kernel::running() == nullptr || std::strncmp(path, "/dev/shm/tutti-listener", 23) != 0) return function(path);
  return 0;
}

int fchmod(int descriptor, mode_t mode) noexcept {
  LIBRARY(fchmod);
  return kernel_for(descriptor) == nullptr ? function(descriptor, mode) : 0;
}

int memfd_create(const char* name, unsigned flags) noexcept {
  LIBRARY(memfd_create);
  const bool fails = Kernel::running() != nullptr && Kernel::process().memory_fails &&
                     Kernel::process().descriptors >= Kernel::process().descriptor_limit;
  return fails ? fail(EMFILE) : function(name, flags);
}

int eventfd(unsigned count, int flags) noexcept {
  LIBRARY(eventfd);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(count, flags);
  kernel->spend(kCall);
  auto file = std::make_shared<Event>();
  file->count = count;
  return open_file(*kernel, file);
}

int eventfd_write(int descriptor, eventfd_t count) {
  LIBRARY(eventfd_write);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, count);
  const auto file = file_of<Event>(*kernel, descriptor, "eventfd_write");
  if (!file) return -1;
  file->count += count;
  kernel->notify(*file);
  return 0;
}

int eventfd_read(int descriptor, eventfd_t* count) {
  LIBRARY(eventfd_read);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, count);
  const auto file = file_of<Event>(*kernel, descriptor, "eventfd_read");
  if (!file) return -1;
  if (file->count == 0) return fail(EAGAIN);
  *count = std::exchange(file->count, 0);
  return 0;
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  LIBRARY(read);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr || !Kernel::is_simulated(descriptor)) return function(descriptor, bytes, count);
  if (kernel->find_as<Event>(descriptor)) {
    eventfd_t value = 0;
    if (eventfd_read(descriptor, &value) != 0) return -1;
    std::memcpy(bytes, &value, sizeof value);
    return sizeof value;
  }
  return ::recv(descriptor, bytes, count, 0);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  LIBRARY(write);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr || !Kernel::is_simulated(descriptor)) return function(descriptor, bytes, count);
  if (kernel->find_as<Event>(descriptor)) {
    eventfd_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return eventfd_write(descriptor, value) == 0 ? ssize_t{sizeof value} : -1;
  }
  return ::send(descriptor, bytes, count, 0);
}

int epoll_create1(int flags) noexcept {
  LIBRARY(epoll_create1);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(flags);
  kernel->spend(kCall);
  return open_file(*kernel, std::make_shared<Epoll>());
}

int epoll_ctl(int descriptor, int operation, int watched, epoll_event* event) noexcept {
  LIBRARY(epoll_ctl);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, operation, watched, event);
  const auto epoll = file_of<Epoll>(*kernel, descriptor, "epoll_ctl");
  if (!epoll) return -1;
  const auto file = kernel->find(watched);
  if (!file) {
    kernel->fail("epoll_ctl() of a descriptor that is closed");
    return fail(EBADF);
  }
  const bool is_known = epoll->entries.contains(watched);
  if (operation == EPOLL_CTL_ADD && is_known) return fail(EEXIST);
  if (operation != EPOLL_CTL_ADD && !is_known) return fail(ENOENT);
  if (operation == EPOLL_CTL_DEL) {
    epoll->entries.erase(watched);
    std::erase(file->watchers, epoll.get());
    return 0;
  }
  if (operation == EPOLL_CTL_ADD) file->watchers.push_back(epoll.get());
  epoll->entries[watched] = {file, event->events, event->data.u64};
  kernel->notify(*epoll);
  return 0;
}

int epoll_wait(int descriptor, epoll_event* events, int most, int milliseconds) {
  LIBRARY(epoll_wait);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, events, most, milliseconds);
  const Time deadline = deadline_in(*kernel, milliseconds < 0 ? -1 : milliseconds * kMillisecond);
  while (true) {
    const auto epoll = file_of<Epoll>(*kernel, descriptor, "epoll_wait");
    if (!epoll) return -1;
    int ready = 0;
    for (const auto& [watched, entry] : epoll->entries) {
      const auto file = entry.file.lock();
      if (!file || ready == most) continue;
      const std::uint32_t have = file->ready() & (entry.events | EPOLLERR | EPOLLHUP);
      if (have == 0) continue;
      events[ready].events = have;
      events[ready++].data.u64 = entry.data;
    }
    // What is ready is told in any order.
    if (ready > 1) std::shuffle(events, events + ready, kernel->random());
    if (ready > 0 || deadline <= kernel->now()) return ready;
    kernel->block_on("epoll_wait", {epoll.get()}, deadline);
  }
}

int poll(pollfd* entries, nfds_t count, int milliseconds) {
  LIBRARY(poll);
  Kernel* const kernel = count == 0 ? nullptr : kernel_for(entries[0].fd);
  if (kernel == nullptr) return function(entries, count, milliseconds);
  return wait_for_events(*kernel, entries, count,
                         deadline_in(*kernel, milliseconds < 0 ? -1 : milliseconds * kMillisecond));
}

int ppoll(pollfd* entries, nfds_t count, const timespec* limit, const sigset_t* mask) {
  LIBRARY(ppoll);
  Kernel* const kernel = count == 0 ? nullptr : kernel_for(entries[0].fd);
  if (kernel == nullptr) return function(entries, count, limit, mask);
  return wait_for_events(*kernel, entries, count, deadline_in(*kernel, limit == nullptr ? -1 : time_of(*limit)));
}

// Sockets.

int socket(int domain, int type, int protocol) noexcept {
  LIBRARY(socket);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return function(domain, type, protocol);
  kernel->spend(kCall);
  if (domain == AF_INET || domain == AF_UNIX) return open_file(*kernel, std::make_shared<Socket>(domain));
  if (domain != AF_NETLINK) return fail(EAFNOSUPPORT);
  const auto news = std::make_shared<PortNews>();
  Network::get().add_listener_of_news(news, Kernel::process().host);
  return open_file(*kernel, news);
}

int bind(int descriptor, const sockaddr* address, socklen_t length) noexcept {
  LIBRARY(bind);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, address, length);
  if (kernel->find_as<PortNews>(descriptor)) return 0;
  const auto socket = file_of<Socket>(*kernel, descriptor, "bind");
  if (!socket) return -1;
  const int error = Network::get().bind(*socket, address_from(address));
  return error == 0 ? 0 : fail(error);
}

int listen(int descriptor, int backlog) noexcept {
  LIBRARY(listen);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, backlog);
  const auto socket = file_of<Socket>(*kernel, descriptor, "listen");
  if (!socket) return -1;
  const int error = Network::get().listen(*socket);
  return error == 0 ? 0 : fail(error);
}

int accept4(int descriptor, sockaddr* address, socklen_t* length, int flags) {
  LIBRARY(accept4);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, address, length, flags);
  const auto listener = file_of<Socket>(*kernel, descriptor, "accept4");
  if (!listener) return -1;
  if (Kernel::process().descriptors >= Kernel::process().descriptor_limit) return fail(EMFILE);
  const auto socket = Network::get().accept(*listener);
  if (!socket) return fail(EAGAIN);
  store_address(socket->connection->address[0], socket->domain, address, length);
  return open_file(*kernel, socket);
}

int connect(int descriptor, const sockaddr* address, socklen_t length) {
  LIBRARY(connect);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, address, length);
  const auto socket = file_of<Socket>(*kernel, descriptor, "connect");
  if (!socket) return -1;
  Address remote = address_from(address);
  int pid = 0;
  int number = 0;
  if (socket->domain == AF_UNIX && std::sscanf(remote.path.c_str(), "/proc/%d/fd/%d", &pid, &number) == 2)
    if (const auto path = kernel->find_as<PathFile>(number)) remote.path = path->path;
  const int error = Network::get().connect(socket, remote);
  return error == 0 ? 0 : fail(error);
}

ssize_t send(int descriptor, const void* bytes, size_t count, int flags) {
  LIBRARY(send);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, bytes, count, flags);
  const auto socket = file_of<Socket>(*kernel, descriptor, "send");
  if (!socket) return -1;
  const long sent = Network::get().send(*socket, static_cast<const char*>(bytes), count);
  return sent >= 0 ? sent : fail(static_cast<int>(-sent));
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  LIBRARY(sendmsg);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, message, flags);
  const auto socket = file_of<Socket>(*kernel, descriptor, "sendmsg");
  if (!socket) return -1;
  std::string bytes;
  for (size_t i = 0; i < message->msg_iovlen; ++i)
    bytes.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  const long sent = Network::get().send(*socket, bytes.data(), bytes.size());
  return sent >= 0 ? sent : fail(static_cast<int>(-sent));
}

ssize_t recv(int descriptor, void* bytes, size_t count, int flags) {
  LIBRARY(recv);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, bytes, count, flags);
  if (const auto news = kernel->find_as<PortNews>(descriptor)) {
    if (news->messages == 0) return fail(EAGAIN);
    --news->messages;
    return static_cast<ssize_t>(std::min<size_t>(count, 16));
  }
  const auto socket = file_of<Socket>(*kernel, descriptor, "recv");
  if (!socket) return -1;
  const long received = Network::get().receive(*socket, static_cast<char*>(bytes), count, (flags & MSG_PEEK) != 0);
  return received >= 0 ? received : fail(static_cast<int>(-received));
}

ssize_t readv(int descriptor, const iovec* parts, int count) {
  LIBRARY(readv);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, parts, count);
  const auto socket = file_of<Socket>(*kernel, descriptor, "readv");
  if (!socket) return -1;
  ssize_t all = 0;
  for (int i = 0; i < count; ++i) {
    const long received =
        Network::get().receive(*socket, static_cast<char*>(parts[i].iov_base), parts[i].iov_len, false);
    if (received < 0 && all == 0) return fail(static_cast<int>(-received));
    if (received <= 0) return all;
    all += received;
    if (static_cast<size_t>(received) < parts[i].iov_len) return all;
  }
  return all;
}

int shutdown(int descriptor, int how) noexcept {
  LIBRARY(shutdown);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, how);
  const auto socket = file_of<Socket>(*kernel, descriptor, "shutdown");
  if (!socket) return -1;
  if (socket->state != Socket::State::connected) return fail(ENOTCONN);
  if (how != SHUT_RD) Network::get().shut_down_sending(*socket);
  return 0;
}

int setsockopt(int descriptor, int level, int option, const void* value, socklen_t length) noexcept {
  LIBRARY(setsockopt);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, level, option, value, length);
  const auto socket = file_of<Socket>(*kernel, descriptor, "setsockopt");
  if (!socket) return -1;
  const int number = length >= sizeof(int) ? *static_cast<const int*>(value) : 0;
  if (level == SOL_SOCKET && option == SO_LINGER) {
    const auto* const chosen = static_cast<const linger*>(value);
    socket->resets = chosen->l_onoff != 0 && chosen->l_linger == 0;
  }
  if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT) socket->user_timeout = number * kMillisecond;
  if (level == IPPROTO_TCP && option == TCP_KEEPIDLE) socket->keep_idle = number * kSecond;
  if (level == IPPROTO_TCP && option == TCP_KEEPINTVL) socket->keep_interval = number * kSecond;
  if (level == IPPROTO_TCP && option == TCP_KEEPCNT) {
    socket->keep_probes = number;
    // The last of the four that watch_idle() sets.
    if (socket->domain == AF_INET && !std::exchange(socket->keepalive, true)) Network::get().watch_keepalive(socket);
  }
  return 0;
}

int getsockopt(int descriptor, int level, int option, void* value, socklen_t* length) noexcept {
  LIBRARY(getsockopt);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, level, option, value, length);
  const auto socket = file_of<Socket>(*kernel, descriptor, "getsockopt");
  if (!socket) return -1;
  if (level == SOL_SOCKET && option == SO_ERROR) {
    *static_cast<int*>(value) = std::exchange(socket->error, 0);
    return 0;
  }
  if (level == IPPROTO_TCP && option == TCP_INFO) {
    if (socket->domain != AF_INET) return fail(EOPNOTSUPP);
    tcp_info info;
    Network::get().fill(*socket, info);
    std::memcpy(value, &info, std::min<std::size_t>(*length, sizeof info));
    return 0;
  }
  return fail(ENOPROTOOPT);
}

int getsockname(int descriptor, sockaddr* address, socklen_t* length) noexcept {
  LIBRARY(getsockname);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, address, length);
  const auto socket = file_of<Socket>(*kernel, descriptor, "getsockname");
  if (!socket) return -1;
  store_address(socket->address, socket->domain, address, length);
  return 0;
}

int getpeername(int descriptor, sockaddr* address, socklen_t* length) noexcept {
  LIBRARY(getpeername);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, address, length);
  const auto socket = file_of<Socket>(*kernel, descriptor, "getpeername");
  if (!socket) return -1;
  if (socket->state != Socket::State::connected) return fail(ENOTCONN);
  store_address(socket->connection->address[1 - socket->end], socket->domain, address, length);
  return 0;
}

int ioctl(int descriptor, unsigned long request, ...) noexcept {
  LIBRARY(ioctl);
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  Kernel* const kernel = kernel_for(descriptor);
  if (kernel == nullptr) return function(descriptor, request, argument);
  const auto socket = file_of<Socket>(*kernel, descriptor, "ioctl");
  if (!socket) return -1;
  if (request != SIOCOUTQ || !socket->connection) return fail(EINVAL);
  *static_cast<int*>(argument) = static_cast<int>(socket->connection->stream[socket->end].unacknowledged.size());
  return 0;
}

}  // extern "C"
