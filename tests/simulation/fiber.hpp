// A thread of a simulated process: a stack and thread-local storage of its own, run on the one real thread until it
// gives the processor back.
//
// Thread-local storage is that of a real thread, which was made for it and does nothing: while the fiber runs, the
// register that points to thread-local storage points there. So errno, pthread_self() and thread_local variables of the
// code under test are those of a thread. The real threads are made once, by prepare(); a child of fork has none of
// them, but still their memory, which is all that is needed.
#pragma once

#include <cstddef>
#include <functional>

namespace tutti::simulated {

class Fiber {
 public:
  /// Makes the memory for so many fibers. Once per program, before it forks.
  static void prepare(int count);

  /// Takes one of the prepared places, which is never given back.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it calls yield() or ends. Not from within a fiber.
  void resume();
  /// Gives the processor back to whoever called resume(). Only from within a fiber.
  static void yield();

  bool has_ended() const { return ended_; }
  /// What pthread_self() returns in it.
  unsigned long self() const { return reinterpret_cast<unsigned long>(storage_); }

 private:
  [[noreturn]] static void begin();

  std::function<void()> body_;
  void* stack_pointer_ = nullptr;
  void* storage_ = nullptr;
  bool ended_ = false;
};

}  // namespace tutti::simulated
