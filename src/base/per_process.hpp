// The one object of a type that a process has. A child made by fork has another one: what it inherits belongs to its
// parent, whose threads and descriptors it does not have.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace tutti {

/// Returns the object of this process, made at first use and never destroyed: threads may use it while the process
/// ends. Any thread.
template <typename Object>
Object& of_process() {
  struct Node {
    pid_t pid = ::getpid();
    Object object;
    Node* next = nullptr;
  };
  static std::atomic<Node*> newest{nullptr};
  const pid_t own = ::getpid();
  Node* made = nullptr;
  while (true) {
    Node* const first = newest.load(std::memory_order_acquire);
    for (Node* node = first; node != nullptr; node = node->next)
      if (node->pid == own) {
        delete made;
        return node->object;
      }
    if (made == nullptr) made = new Node;
    made->next = first;
    Node* expected = first;
    if (newest.compare_exchange_strong(expected, made, std::memory_order_release, std::memory_order_relaxed))
      return made->object;
  }
}

}  // namespace tutti
