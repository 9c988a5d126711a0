#include "documents/text_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace tutti {
namespace {

class ReplaceText : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tutti_test.XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::ptrdiff_t entries() const { return std::distance(std::filesystem::directory_iterator(folder_), {}); }

  std::string folder_;
};

TEST_F(ReplaceText, KeepsTheModeAndLeavesNoDraft) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(replace_text(path, "old"));
  ::chmod(path.c_str(), 0600);
  ASSERT_TRUE(replace_text(path, "new"));
  EXPECT_EQ(read_text(path).value(), "new");
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(entries(), 1);
}

TEST_F(ReplaceText, WritesWhereALinkPoints) {
  const std::string path = folder_ + "/file", link = folder_ + "/link";
  ASSERT_TRUE(replace_text(path, "old and longer"));
  std::filesystem::create_symlink(path, link);
  ASSERT_TRUE(replace_text(link, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_text(path).value(), "new");
}

TEST_F(ReplaceText, LeavesAFolderAlone) {
  const auto refused = replace_text(folder_, "text");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(folder_ + ": cannot be opened: Is a directory"), std::string::npos)
      << refused.error().message;
}

TEST_F(ReplaceText, LeavesADeviceADevice) {
  const std::string full = folder_ + "/full";
  if (::mknod(full.c_str(), S_IFCHR | 0600, (1 << 8) | 7) != 0 || ::access(full.c_str(), W_OK) != 0)
    GTEST_SKIP() << "needs root, to make a device";
  const auto refused = replace_text(full, "text");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, full + ": cannot be written: No space left on device");
  EXPECT_TRUE(std::filesystem::is_character_file(full));
}

}  // namespace
}  // namespace tutti
