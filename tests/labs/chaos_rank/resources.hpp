// What this process holds: descriptors, threads, mappings, memory. Needs two free descriptors.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::labs {

struct Resources {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t mappings = 0;
  std::size_t kilobytes = 0;  // resident

  std::string to_string() const;
};

/// Returns what is held now.
Resources count_resources();

/// Returns how many descriptors there are of each kind, such as "2 anon_inode:[eventpoll], 9 socket".
std::string describe_descriptors();

/// Returns what is held once descriptors and threads have stayed the same for a second, after `least` seconds and
/// before `most`: connections that were lost come back, and those that nobody has at the other end are given up. Memory
/// that was freed is given back first.
Resources settled_resources(double least, double most);

}  // namespace tutti::labs
