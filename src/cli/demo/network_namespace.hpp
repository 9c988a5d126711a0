// A network of its own for some processes: a namespace without a name, which is gone once nobody holds it or is in it,
// however this process ends. One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti::cli {

class NetworkNamespace {
 public:
  /// Fails where the kernel does not let us.
  static Result<NetworkNamespace> create();

  /// Calls `what` with this thread in the namespace; processes started meanwhile stay there.
  Status inside(const std::function<Status()>& what) const;
  /// A name for it that other processes understand while this one lives.
  std::string path() const;

 private:
  NetworkNamespace(Fd home, Fd own) : home_(std::move(home)), own_(std::move(own)) {}

  Fd home_;
  Fd own_;
};

/// Runs a program and waits for its end; what it says on standard error is in the error.
Status run_quietly(const std::vector<std::string>& words);

/// Within the namespace this thread is in: the interface is up and has a carrier.
bool is_running(const std::string& interface);

}  // namespace tutti::cli
