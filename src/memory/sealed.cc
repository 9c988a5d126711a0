#include "memory/sealed.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "base/per_process.hpp"

namespace tutti {
namespace {

constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string path_of(pid_t pid, int descriptor) { return fmt::format("/proc/{}/fd/{}", pid, descriptor); }

/// A descriptor that this process holds to have one when there is no other. Thread-safe. Another thread may take what
/// is given up before open() does; then opening fails, as it would have without a reserve.
class DescriptorReserve {
 public:
  void fill() {
    const std::lock_guard lock(mutex_);
    if (!held_) held_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  Fd open(const std::string& path) {
    Fd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (opened || errno != EMFILE) return opened;
    const std::lock_guard lock(mutex_);
    held_.reset();
    opened = Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (opened) return opened;
    const int why = errno;
    held_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    errno = why;
    return opened;
  }

 private:
  std::mutex mutex_;
  Fd held_;
};

}  // namespace

OpenedFile::~OpenedFile() {
  if (!descriptor_) return;
  descriptor_.reset();
  of_process<DescriptorReserve>().fill();
}

Result<SealedFile> create_sealed(const char* name, std::size_t bytes, Pages pages) {
  of_process<DescriptorReserve>().fill();
  SealedFile file;
  file.descriptor = Fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int descriptor = file.descriptor.get();
  if (!file.descriptor) return system_error("memfd_create");
  const auto size = static_cast<off_t>(bytes);
  const int error = pages == Pages::at_once              ? ::posix_fallocate(descriptor, 0, size)
                    : ::ftruncate(descriptor, size) != 0 ? errno
                                                         : 0;
  if (error != 0) {
    errno = error;
    return system_error(fmt::format("reserving {} bytes of shared memory", bytes));
  }
  if (::fcntl(descriptor, F_ADD_SEALS, kFixedSize) != 0) return system_error("sealing shared memory");
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error("fstat of shared memory");
  file.inode = info.st_ino;
  return file;
}

Result<OpenedFile> open_sealed(pid_t pid, int descriptor, std::uint64_t inode, std::size_t bytes) {
  const std::string path = path_of(pid, descriptor);
  OpenedFile opened(of_process<DescriptorReserve>().open(path));
  if (opened.get() < 0) return system_error(fmt::format("opening shared memory of process {} ({})", pid, path));
  struct stat info {};
  if (::fstat(opened.get(), &info) != 0) return system_error("fstat of shared memory");
  if (info.st_ino != inode)
    return fail(ErrorCode::refused, fmt::format("{} is not the memory process {} announced", path, pid));
  // The size is read after the seals: once they are there it cannot change.
  const int seals = ::fcntl(opened.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kFixedSize) != kFixedSize)
    return fail(ErrorCode::refused,
                fmt::format("the memory of process {} ({}) is not sealed: its size may change while "
                            "it is mapped",
                            pid, path));
  if (::fstat(opened.get(), &info) != 0) return system_error("fstat of shared memory");
  if (static_cast<std::uint64_t>(info.st_size) < bytes)
    return fail(ErrorCode::refused,
                fmt::format("process {} announced {} bytes of memory, {} has {}", pid, bytes, path, info.st_size));
  return opened;
}

bool is_open(pid_t pid, int descriptor, std::uint64_t inode) {
  struct stat info {};
  return ::stat(path_of(pid, descriptor).c_str(), &info) == 0 && info.st_ino == inode;
}

}  // namespace tutti
