#include "net/secret.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "net/handshake.hpp"

namespace tutti {
namespace {

class OwnFolder {
 public:
  OwnFolder() {
    char name[] = "/tmp/tutti_test.XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path_ = name;
    ::chmod(name, 01777);  // as /tmp is: another user may put files there
  }
  ~OwnFolder() { std::filesystem::remove_all(path_); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file() const { return path_ + "/tutti-secret-" + std::to_string(::geteuid()); }

 private:
  std::string path_;
};

/// Whether `body` holds in a process of another user. Needs root.
bool holds_as_other_user(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setuid(54321) == 0 && body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(UserSecret, IsMadeOnceAndIsPrivate) {
  const OwnFolder folder;
  const auto first = user_secret_in({folder.path()});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->size(), 64u);
  EXPECT_EQ(user_secret_in({folder.path()}).value(), *first);
  struct stat found {};
  ASSERT_EQ(::stat(folder.file().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "a draft was left behind";
}

TEST(UserSecret, IsNotTakenFromAFileThatOthersCanRead) {
  const OwnFolder folder;
  ASSERT_TRUE(user_secret_in({folder.path()}));
  ::chmod(folder.file().c_str(), 0644);
  const auto refused = user_secret_in({folder.path()});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is open to other users (mode 644)"), std::string::npos);
  EXPECT_NE(refused.error().message.find("set TUTTI_SECRET"), std::string::npos);
  EXPECT_TRUE(user_secret_in({folder.path(), "/tmp"})) << "the next folder serves";
}

TEST(UserSecret, IsNotTakenThroughALinkNorFromAnotherUser) {
  const OwnFolder folder, elsewhere;
  ASSERT_TRUE(user_secret_in({elsewhere.path()}));
  std::filesystem::create_symlink(elsewhere.file(), folder.file());
  EXPECT_FALSE(user_secret_in({folder.path()}));
  if (::geteuid() != 0) GTEST_SKIP() << "the rest needs root";
  std::ofstream(folder.path() + "/tutti-secret-54321") << std::string(64, 'a');
  EXPECT_TRUE(holds_as_other_user([&] {
    const auto refused = user_secret_in({folder.path()});
    return !refused && refused.error().message.find("belongs to user 0") != std::string::npos;
  }));
}

TEST(UserSecret, KeepsOtherUsersOfTheHostOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const JobKey own("", "", false);
  EXPECT_TRUE(holds_as_other_user([&] {
    const JobKey other("", "", false);
    std::filesystem::remove("/dev/shm/tutti-secret-54321");
    return !std::equal(own.bytes().begin(), own.bytes().end(), other.bytes().begin());
  }));
  const JobKey again("", "", false);
  EXPECT_TRUE(std::equal(own.bytes().begin(), own.bytes().end(), again.bytes().begin()));
}

TEST(SecretKey, CostsAGuessOfAShortSecretSomethingAndOurselvesOnlyOnce) {
  const auto seconds_of = [](const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  SecretKey key{}, again{}, other{};
  const std::string guessable = "secret " + std::to_string(std::random_device()());  // keys are remembered
  EXPECT_GT(seconds_of([&] { key = key_of_secret(guessable).value(); }), 0.001);
  EXPECT_LT(seconds_of([&] {
              for (int i = 0; i < 100; ++i) again = key_of_secret(guessable).value();
            }),
            0.1);
  EXPECT_LT(seconds_of([&] {
              for (int i = 0; i < 100; ++i) other = key_of_secret(std::string(64, 'a')).value();
            }),
            0.1);
  EXPECT_EQ(key, again);
  EXPECT_NE(key, other);
}

}  // namespace
}  // namespace tutti
