#include "monitor/folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/fd.hpp"

namespace tutti::monitor {
namespace {

class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A recording of this process's number, written so long ago.
  std::filesystem::path recording(const std::string& suffix, std::chrono::seconds age) const {
    const auto path = folder_ / (std::to_string(::getpid()) + suffix + kSuffix);
    std::ofstream(path) << "recorded";
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(FolderTest, KeepsAYoungRecordingOfANumberThatLives) {
  const auto path = recording("-1", std::chrono::seconds(0));
  remove_orphans(folder_);
  EXPECT_TRUE(std::filesystem::exists(path)) << "its process may not have locked it yet";
}

TEST_F(FolderTest, RemovesAnOldRecordingThoughAnotherProcessHasItsNumber) {
  const auto path = recording("-2", std::chrono::minutes(5));
  remove_orphans(folder_);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(FolderTest, KeepsAnOldRecordingThatIsWritten) {
  const auto path = recording("-3", std::chrono::minutes(5));
  const Fd writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(writer.get(), LOCK_EX | LOCK_NB), 0);
  remove_orphans(folder_);
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tutti::monitor
