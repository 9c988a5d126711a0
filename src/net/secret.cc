#include "net/secret.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "base/fd.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLong = 32;  // characters from which a secret is taken for random
constexpr unsigned long long kPasses = 2;
constexpr std::size_t kMemory = std::size_t{19} << 20;
constexpr std::size_t kDigits = 64;  // of a user's secret

std::string random_digits(std::size_t count) {
  std::string bytes(count / 2, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  std::string digits(count + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  digits.pop_back();
  return digits;
}

/// Only a file that nobody but this user could write or read counts.
Result<std::string> read_private(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0) return system_error(path);
  if (!S_ISREG(found.st_mode)) return fail(ErrorCode::refused, path + " is not a file");
  if (found.st_uid != ::geteuid())
    return fail(ErrorCode::refused, fmt::format("{} belongs to user {}, not to {}", path, found.st_uid, ::geteuid()));
  if ((found.st_mode & 077) != 0)
    return fail(ErrorCode::refused, fmt::format("{} is open to other users (mode {:o}); expected 600", path,
                                                static_cast<unsigned>(found.st_mode & 0777)));
  std::string text(kDigits, '\0');
  if (::read(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail(ErrorCode::refused, path + " is too short to be a secret; remove it");
  return text;
}

/// Makes the file with its contents in one step. One that is there already is as good.
void make_private(const std::string& path) {
  const std::string draft = fmt::format("{}.{}", path, random_digits(16));
  {
    const Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    const std::string digits = random_digits(kDigits);
    if (file && ::write(file.get(), digits.data(), digits.size()) == static_cast<ssize_t>(digits.size()))
      (void)::link(draft.c_str(), path.c_str());
  }
  ::unlink(draft.c_str());
}

}  // namespace

Result<SecretKey> key_of_secret(std::string_view secret) {
  SecretKey key{};
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(secret.data());
  if (sodium_init() < 0) return fail(ErrorCode::system, "the system gives no random numbers");
  if (secret.empty() || secret.size() >= kLong) {
    crypto_generichash(key.data(), key.size(), bytes, secret.size(), nullptr, 0);
    return key;
  }
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, SecretKey, std::less<>>;
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(secret); found != known->end()) return found->second;
  // All ranks must find the same key, before they have exchanged a word: the salt is fixed.
  static constexpr std::array<std::uint8_t, crypto_pwhash_SALTBYTES + 1> kSalt = {"tutti job secret"};
  if (crypto_pwhash(key.data(), key.size(), secret.data(), secret.size(), kSalt.data(), kPasses, kMemory,
                    crypto_pwhash_ALG_ARGON2ID13) != 0)
    return fail(ErrorCode::system, fmt::format("no memory to make a key of a secret of {} characters; {} or more need "
                                               "none",
                                               secret.size(), kLong));
  known->emplace(secret, key);
  return key;
}

Result<std::string> user_secret_in(const std::vector<std::string>& folders) {
  if (sodium_init() < 0) return fail(ErrorCode::system, "the system gives no random numbers");
  Error last;
  for (const std::string& folder : folders) {
    const std::string path = fmt::format("{}/tutti-secret-{}", folder, ::geteuid());
    auto secret = read_private(path);
    if (!secret) make_private(path);
    if (!secret) secret = read_private(path);
    if (secret) return secret;
    last = secret.error();
  }
  return fail(ErrorCode::refused,
              fmt::format("the job has no secret, and the user has none on this host ({}): set TUTTI_SECRET or "
                          "TUTTI_SECRET_FILE to the same secret on all ranks, or TUTTI_INSECURE=1 to do without",
                          last.message));
}

Result<std::string> user_secret() { return user_secret_in({"/dev/shm", "/tmp"}); }

}  // namespace tutti
