// What one rank tells the script that disturbs it: a file of lines, each written at once,
//   NANOSECONDS WORD TEXT      monotonic time; which words there are is in chaos_rank.cc
// Any thread may write lines. The file stays open, so that writing needs no descriptor.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

namespace tutti::labs {

/// Returns the monotonic time in nanoseconds.
std::int64_t now();
void sleep_for(std::int64_t nanoseconds);

class Journal {
 public:
  /// Ends the process if the file cannot be written.
  explicit Journal(const std::string& path);

  void write(const std::string& word, const std::string& text = {});
  /// Writes why the run fails, also to standard error, and ends this process; the other ranks hear of it.
  [[noreturn]] void give_up(const std::string& why);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::mutex mutex_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tutti::labs
