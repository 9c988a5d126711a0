#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/thread.hpp"
#include "bootstrap/pmi.hpp"
#include "net/socket.hpp"

namespace tutti {
namespace {

// The part of PMIx's stable ABI that is needed here, so that no header of it is.
struct PmixProc {
  char space[256];
  std::uint32_t rank;
};
struct PmixValue {
  std::uint16_t type;
  union {
    char* string;
    // Larger than any release's: the library may copy its whole value struct.
    std::byte reserved[56];
  } data;
};
constexpr int kSuccess = 0;
constexpr std::uint16_t kString = 3;
constexpr std::uint8_t kGlobal = 3;

// A call is still under way in a thread nobody waits for; to close the library beneath it would hang.
std::atomic<bool> g_call_abandoned{false};

// The connection to the PMIx server, opened once. Closed at exit and not before: the library counts its users, and an
// MPI library in this process may be one. A process that never closed it would count as crashed.
class PmixSession {
 public:
  static Result<PmixSession*> open() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    static PmixSession* session = nullptr;
    if (session != nullptr) return session;
    auto fresh = std::unique_ptr<PmixSession>(new PmixSession);
    if (auto loaded = fresh->load(); !loaded) return tl::unexpected(loaded.error());
    const int code = fresh->init_(&fresh->self_, nullptr, 0);
    if (code != kSuccess) return fresh->failed("PMIx_Init", code);
    // Made after the library's own exit handlers were registered, so that it is destroyed before they run.
    static const std::unique_ptr<PmixSession> kept = std::move(fresh);
    session = kept.get();
    return session;
  }

  ~PmixSession() {
    if (initialised() && owner_ == ::getpid() && !g_call_abandoned) finalize_(nullptr, 0);
  }

  Result<std::string> broadcast(int rank, const std::string& key, const std::string& value) {
    if (rank == 0) {
      if (auto put = publish(key, value); !put) return tl::unexpected(put.error());
    }
    if (const int code = fence_(nullptr, 0, nullptr, 0); code != kSuccess) return failed("PMIx_Fence", code);
    PmixProc root = self_;
    root.rank = 0;
    PmixValue* found = nullptr;
    const int code = get_(&root, key.c_str(), nullptr, 0, &found);
    if (code != kSuccess) return failed("PMIx_Get", code);
    const bool is_text = found != nullptr && found->type == kString && found->data.string != nullptr;
    std::string text = is_text ? found->data.string : "";
    if (is_text) std::free(found->data.string);
    std::free(found);
    return text;
  }

 private:
  PmixSession() = default;

  Status load() {
    void* library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
      return fail(ErrorCode::unsupported, fmt::format("the launcher speaks PMIx, but its library is missing: {}; set "
                                                      "TUTTI_ADDRESS=host:port of rank 0 and TUTTI_SECRET instead",
                                                      ::dlerror()));
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    if (find(init_, "PMIx_Init") && find(finalize_, "PMIx_Finalize") && find(put_, "PMIx_Put") &&
        find(commit_, "PMIx_Commit") && find(fence_, "PMIx_Fence") && find(get_, "PMIx_Get") &&
        find(error_string_, "PMIx_Error_string"))
      return {};
    return fail(ErrorCode::unsupported, "libpmix.so.2 lacks functions of the PMIx standard");
  }

  Status publish(const std::string& key, const std::string& value) {
    std::string copy = value;
    PmixValue carried{};
    carried.type = kString;
    carried.data.string = copy.data();
    if (const int code = put_(kGlobal, key.c_str(), &carried); code != kSuccess) return failed("PMIx_Put", code);
    if (const int code = commit_(); code != kSuccess) return failed("PMIx_Commit", code);
    return {};
  }

  bool initialised() const { return self_.space[0] != '\0'; }

  tl::unexpected<Error> failed(const char* call, int code) const {
    return fail(ErrorCode::system, fmt::format("{}: {}", call, error_string_(code)));
  }

  PmixProc self_{};
  int owner_ = ::getpid();
  int (*init_)(PmixProc*, void*, std::size_t) = nullptr;
  int (*finalize_)(const void*, std::size_t) = nullptr;
  int (*put_)(std::uint8_t, const char*, PmixValue*) = nullptr;
  int (*commit_)() = nullptr;
  int (*fence_)(const PmixProc*, std::size_t, const void*, std::size_t) = nullptr;
  int (*get_)(const PmixProc*, const char*, const void*, std::size_t, PmixValue**) = nullptr;
  const char* (*error_string_)(int) = nullptr;
};

}  // namespace

Result<std::string> broadcast_by_pmix(int rank, const std::string& key, const std::string& value, Deadline deadline) {
  auto received = std::make_shared<std::string>();
  const auto work = [=]() -> Status {
    auto session = PmixSession::open();
    if (!session) return tl::unexpected(session.error());
    auto text = (*session)->broadcast(rank, key, value);
    if (!text) return tl::unexpected(text.error());
    *received = std::move(*text);
    return {};
  };
  // PMIx calls know no deadline of their own.
  auto done = run_before(deadline, "the exchange between all ranks through PMIx", work);
  if (!done && done.error().code == ErrorCode::timed_out) g_call_abandoned = true;
  if (!done) return tl::unexpected(done.error());
  return std::move(*received);
}

}  // namespace tutti
