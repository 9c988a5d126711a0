#include "resources.hpp"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "journal.hpp"

namespace tutti::labs {

namespace {

std::size_t entries(const char* folder) {
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    ++count;
  return count;
}

std::size_t lines(const char* path) {
  std::ifstream file(path);
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

std::size_t resident_kilobytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::size_t value = 0;
    if (word == "VmRSS:" && file >> value) return value;
  }
  return 0;
}

}  // namespace

std::string describe_descriptors() {
  std::map<std::string, int> kinds;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc/self/fd", error), end; !error && each != end;
       each.increment(error)) {
    std::error_code gone;
    std::string target = std::filesystem::read_symlink(each->path(), gone).string();
    ++kinds[target.substr(0, target.find(":["))];
  }
  std::string text;
  for (const auto& [kind, count] : kinds) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return text;
}

std::string Resources::to_string() const {
  return std::to_string(descriptors) + " " + std::to_string(threads) + " " + std::to_string(mappings) + " " +
         std::to_string(kilobytes);
}

Resources count_resources() {
  return {entries("/proc/self/fd") - 1, entries("/proc/self/task"), lines("/proc/self/maps"), resident_kilobytes()};
}

Resources settled_resources(double least, double most) {
  constexpr std::int64_t kPause = 100'000'000;
  constexpr int kEqual = 10;
  const std::int64_t end = now() + static_cast<std::int64_t>(most * 1e9);
  ::malloc_trim(0);
  sleep_for(static_cast<std::int64_t>(least * 1e9));
  Resources last = count_resources();
  for (int equal = 0; equal < kEqual && now() < end;) {
    sleep_for(kPause);
    const Resources next = count_resources();
    equal = next.descriptors == last.descriptors && next.threads == last.threads ? equal + 1 : 0;
    last = next;
  }
  return last;
}

}  // namespace tutti::labs
