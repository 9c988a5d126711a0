// The folder of tmpfs that holds recordings, one file for each process, locked by it while it lives. Any thread.
#pragma once

#include <string>

#include "tutti/error.hpp"

namespace tutti::monitor {

inline constexpr const char* kSuffix = ".rec";

/// /dev/shm/tutti-UID
std::string default_folder();
/// Makes it where it is missing. It must belong to this user, and others must not be able to write there.
Status prepare_folder(const std::string& folder);
/// Whether the process that writes the recording lives. `descriptor`: the file, opened by whoever asks.
bool is_written(int descriptor);
/// Removes the recordings of processes that are gone.
void remove_orphans(const std::string& folder);

}  // namespace tutti::monitor
