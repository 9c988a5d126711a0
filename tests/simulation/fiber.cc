#include "fiber.hpp"

#include <dlfcn.h>
#include <immintrin.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace tutti::simulated {
namespace {

constexpr std::size_t kStackBytes = 512 << 10;

struct Place {
  void* storage = nullptr;     // of thread-local variables: what the register points to
  std::byte* stack = nullptr;  // its low end
};
std::vector<Place> g_places;
std::size_t g_taken = 0;

Fiber* g_running = nullptr;
void* g_main_stack_pointer = nullptr;
void* g_main_storage = nullptr;

struct Park {
  sem_t ready;
  void* storage = nullptr;
};

void* park(void* argument) {
  auto& parked = *static_cast<Park*>(argument);
  parked.storage = reinterpret_cast<void*>(pthread_self());
  sem_post(&parked.ready);
  sem_t never;
  sem_init(&never, 0, 0);
  while (true) sem_wait(&never);
}

}  // namespace

// Saves what a function must keep, changes stacks, and goes on where the other side had stopped.
extern "C" void tutti_switch_stack(void** save, void* load);
asm(R"(
.text
.globl tutti_switch_stack
.type tutti_switch_stack, @function
tutti_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tutti_switch_stack, .-tutti_switch_stack
)");

void Fiber::prepare(int count) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  for (int i = 0; i < count; ++i) {
    Park parked;
    sem_init(&parked.ready, 0, 0);
    pthread_t thread;
    if (create(&thread, &attributes, &park, &parked) != 0) std::abort();
    sem_wait(&parked.ready);
    void* const stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) std::abort();
    g_places.push_back({parked.storage, static_cast<std::byte*>(stack)});
  }
  pthread_attr_destroy(&attributes);
}

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  if (g_taken == g_places.size()) std::abort();
  const Place& place = g_places[g_taken++];
  storage_ = place.storage;
  // As if switch_stack had been called from nowhere: six registers, and where to go on. Functions expect the stack to
  // be 8 bytes off a multiple of 16 when they begin.
  auto* top = reinterpret_cast<std::uint64_t*>(place.stack + kStackBytes - 64);
  *--top = 0;
  *--top = reinterpret_cast<std::uint64_t>(&Fiber::begin);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_pointer_ = top;
}

__attribute__((no_stack_protector, target("fsgsbase"))) void Fiber::resume() {
  g_running = this;
  g_main_storage = reinterpret_cast<void*>(_readfsbase_u64());
  _writefsbase_u64(reinterpret_cast<std::uint64_t>(storage_));
  tutti_switch_stack(&g_main_stack_pointer, stack_pointer_);
  g_running = nullptr;
}

__attribute__((no_stack_protector, target("fsgsbase"))) void Fiber::yield() {
  Fiber* const self = g_running;
  _writefsbase_u64(reinterpret_cast<std::uint64_t>(g_main_storage));
  tutti_switch_stack(&self->stack_pointer_, g_main_stack_pointer);
}

void Fiber::begin() {
  g_running->body_();
  g_running->ended_ = true;
  yield();
  std::abort();
}

}  // namespace tutti::simulated
