#include "kernel.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstdio>

namespace tutti::simulated {

Kernel* Kernel::instance_ = nullptr;
Thread* Kernel::current_ = nullptr;

std::uint32_t Epoll::ready() const {
  for (const auto& [descriptor, entry] : entries) {
    const auto file = entry.file.lock();
    if (file && (file->ready() & (entry.events | EPOLLERR | EPOLLHUP)) != 0) return EPOLLIN;
  }
  return 0;
}

void Epoll::closed() {
  for (const auto& [descriptor, entry] : entries)
    if (const auto file = entry.file.lock()) std::erase(file->watchers, this);
  entries.clear();
}

std::uint32_t Event::ready() const { return EPOLLOUT | (count != 0 ? std::uint32_t{EPOLLIN} : 0u); }

std::uint32_t ProcessEndFile::ready() const { return process_.dead ? std::uint32_t{EPOLLIN} : 0u; }

Kernel::Kernel(std::uint64_t seed) : random_(seed) { instance_ = this; }

Process& Kernel::start_process(int host, const std::string& name, std::function<void()> body) {
  Process& process = processes_.emplace_back();
  process.pid = 3'000'000 + static_cast<int>(processes_.size());
  process.host = host;
  start_thread(process, name, std::move(body));
  return process;
}

Thread& Kernel::start_thread(Process& process, const std::string& name, std::function<void()> body) {
  Thread& thread = threads_.emplace_back();
  thread.process = &process;
  thread.number = threads_.size();
  thread.name = name;
  thread.fiber = std::make_unique<Fiber>(std::move(body));
  ++process.threads;
  runnable_.push_back(&thread);
  return thread;
}

Thread* Kernel::find_thread(unsigned long self) {
  for (Thread& each : threads_)
    if (each.fiber->self() == self) return &each;
  return nullptr;
}

bool Kernel::holds_no_lock(const Process& process) const {
  return std::none_of(threads_.begin(), threads_.end(),
                      [&](const Thread& each) { return each.process == &process && each.locks_held > 0; });
}

void Kernel::kill(Process& process) {
  trace(fmt::format("process {} is killed", process.pid));
  process.dead = true;
  process.threads = 0;
  for (Thread& each : threads_)
    if (each.process == &process) each.state = Thread::State::ended;
  std::erase_if(runnable_, [&](const Thread* each) { return each->process == &process; });
  for (std::size_t index = 0; index < files_.size(); ++index)
    if (files_[index] && files_[index]->owner == &process) close(static_cast<int>(index) + kFirstDescriptor);
  for (const auto& watcher : process.watchers)
    if (const auto file = watcher.lock()) notify(*file);
}

void Kernel::at(Time time, std::function<void()> what) { scheduled_.push({time, order_++, std::move(what)}); }

void Kernel::run_due() {
  while (!scheduled_.empty() && scheduled_.top().time <= now_) {
    const auto what = std::move(const_cast<Scheduled&>(scheduled_.top()).what);
    scheduled_.pop();
    what();
  }
}

Thread* Kernel::choose() {
  std::vector<std::size_t> able;
  for (std::size_t index = 0; index < runnable_.size(); ++index)
    if (!runnable_[index]->process->stopped) able.push_back(index);
  if (able.empty()) return nullptr;
  const std::size_t index = able.size() == 1 ? able[0] : able[random_() % able.size()];
  Thread* const chosen = runnable_[index];
  runnable_.erase(runnable_.begin() + static_cast<std::ptrdiff_t>(index));
  return chosen;
}

bool Kernel::run(const std::function<bool()>& finished, Time latest) {
  while (failure_.empty() && !finished()) {
    run_due();
    if (!failure_.empty() || finished()) break;
    if (now_ > latest) return false;
    Thread* const next = choose();
    if (next == nullptr) {
      if (scheduled_.empty()) return false;
      now_ = std::max(now_, scheduled_.top().time);
      continue;
    }
    mix(static_cast<std::uint64_t>(now_) ^ next->number << 48);
    current_ = next;
    next->fiber->resume();
    current_ = nullptr;
    if (next->fiber->has_ended() && next->state != Thread::State::ended) {
      next->state = Thread::State::ended;
      --next->process->threads;
      if (next->joiner != nullptr) wake(*next->joiner);
    } else if (next->state == Thread::State::runnable) {
      runnable_.push_back(next);
    }
  }
  return failure_.empty();
}

void Kernel::spend(Time cost) {
  now_ += cost;
  const bool due = !scheduled_.empty() && scheduled_.top().time <= now_;
  if (due || random_.chance(preemption)) Fiber::yield();
}

bool Kernel::block(const char* in, Time deadline, const void* on) {
  Thread& self = *current_;
  if (deadline <= now_) return false;
  self.state = Thread::State::blocked;
  self.waits_in = in;
  self.waits_on = on;
  self.deadline = deadline;
  self.timed_out = false;
  const std::uint64_t number = ++self.waits;
  if (deadline != kForever)
    at(deadline, [this, &self, number] {
      if (self.state != Thread::State::blocked || self.waits != number) return;
      self.timed_out = true;
      wake(self);
    });
  Fiber::yield();
  self.waits_on = nullptr;
  return !self.timed_out;
}

bool Kernel::block_on(const char* in, const std::vector<File*>& files, Time deadline) {
  for (File* const file : files) file->sleepers.push_back(current_);
  const bool woken = block(in, deadline);
  for (File* const file : files) std::erase(file->sleepers, current_);
  return woken;
}

void Kernel::wake(Thread& thread) {
  if (thread.state != Thread::State::blocked) return;
  thread.state = Thread::State::runnable;
  runnable_.push_back(&thread);
}

int Kernel::wake_waiting(const void* on, int most) {
  int woken = 0;
  for (Thread& each : threads_) {
    if (woken == most) break;
    if (each.state != Thread::State::blocked || each.waits_on != on) continue;
    wake(each);
    ++woken;
  }
  return woken;
}

void Kernel::notify(File& file) {
  for (Thread* const sleeper : std::vector(file.sleepers)) wake(*sleeper);
  for (Epoll* const epoll : file.watchers) notify(*epoll);
}

int Kernel::open(std::shared_ptr<File> file) {
  Process& owner = process();
  if (owner.descriptors >= owner.descriptor_limit) return -1;
  ++owner.descriptors;
  file->owner = &owner;
  files_.push_back(std::move(file));
  return kFirstDescriptor + static_cast<int>(files_.size()) - 1;
}

std::shared_ptr<File> Kernel::find(int descriptor) const {
  const auto index = static_cast<std::size_t>(descriptor - kFirstDescriptor);
  return index < files_.size() ? files_[index] : nullptr;
}

bool Kernel::close(int descriptor) {
  const auto file = find(descriptor);
  if (!file) return false;
  for (Epoll* const epoll : file->watchers) epoll->entries.erase(descriptor);
  file->watchers.clear();
  files_[static_cast<std::size_t>(descriptor - kFirstDescriptor)] = nullptr;
  --file->owner->descriptors;
  file->closed();
  return true;
}

void Kernel::fail(const std::string& what) {
  if (failure_.empty()) failure_ = fmt::format("{:.6f} s: {}", static_cast<double>(now_) * 1e-9 - 1000, what);
}

void Kernel::trace(const std::string& what) const {
  if (traces) std::fprintf(stderr, "%12.6f %s\n", static_cast<double>(now_) * 1e-9 - 1000, what.c_str());
}

std::string Kernel::describe_threads() const {
  std::string text;
  for (const Thread& each : threads_) {
    if (each.state == Thread::State::ended) continue;
    text += fmt::format("  process {} {}{}: ", each.process->pid, each.name, each.process->stopped ? " (stopped)" : "");
    text += each.state == Thread::State::runnable ? "runnable\n" : fmt::format("waits in {}\n", each.waits_in);
  }
  return text;
}

}  // namespace tutti::simulated
