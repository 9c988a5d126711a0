// A folder on tmpfs for what the ranks of a scene record, for as long as the object lives. One thread.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace tutti::cli {

class TmpfsFolder {
 public:
  TmpfsFolder() {
    std::string name = "/dev/shm/tutti-demo-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TmpfsFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TmpfsFolder(const TmpfsFolder&) = delete;
  TmpfsFolder& operator=(const TmpfsFolder&) = delete;

  /// Empty if it could not be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tutti::cli
