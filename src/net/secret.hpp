// Secrets that people choose, and the one that each user of a host has without choosing. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

using SecretKey = std::array<std::uint8_t, 32>;

/// The key of a secret. Whoever makes a rank prove a short secret to him can try guesses at home, so one of fewer than
/// 32 characters goes through Argon2id (19 MiB, two passes: some 20 ms for each guess); what is longer is taken for
/// random. The same on all hosts. Computed once in a process. ErrorCode::system if there is no memory for it.
Result<SecretKey> key_of_secret(std::string_view secret);

/// The secret of this user on this host: ranks that were given none prove with it that they belong to the same user,
/// since anybody can connect to a loopback port. It is a file that only the user can read, of random digits, made by
/// the first process that needs it. The error says why there is none and what to set instead.
Result<std::string> user_secret();

/// The same in the first of these folders that has it or takes it; "tutti-secret-UID" there.
Result<std::string> user_secret_in(const std::vector<std::string>& folders);

}  // namespace tutti
