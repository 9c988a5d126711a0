#include "control/world/process_end.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "control/process_watch.hpp"

namespace tutti {

void ProcessEnd::watch(const ControlPeer& process, std::function<void()> ended) {
  if (watched_ || seen_at_ || process.pid <= 0 || process.start_time == 0) return;
  if (process.pid == ::getpid()) {
    watched_ = true;  // another Control of this process
    return;
  }
  ended_ = std::move(ended);
  ProcessWatch found = watch_process(process.pid, process.start_time);
  if (found.gone) return see();
  if (!found.descriptor) return;
  auto key = loop_.watch(found.descriptor.get(), EPOLLIN, [this](std::uint32_t) { see(); });
  if (!key) return;
  descriptor_ = std::move(found.descriptor);
  key_ = *key;
  watched_ = true;
}

void ProcessEnd::see() {
  stop();
  seen_at_ = loop_.now();
  ended_();
}

void ProcessEnd::stop() {
  if (!descriptor_) return;
  loop_.unwatch(key_);
  descriptor_.reset();
}

}  // namespace tutti
