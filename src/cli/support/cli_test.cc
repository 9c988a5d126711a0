#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "cli/support/launch.hpp"
#include "cli/support/lines.hpp"
#include "cli/support/parse.hpp"

namespace tutti::cli {
namespace {

TEST(Sizes, TakeSuffixesAsPowersOf1024) {
  EXPECT_EQ(parse_bytes("8").value(), 8U);
  EXPECT_EQ(parse_bytes("0").value(), 0U);
  EXPECT_EQ(parse_bytes("64K").value(), 65536U);
  EXPECT_EQ(parse_bytes("64kB").value(), 65536U);
  EXPECT_EQ(parse_bytes("1.5M").value(), 3U << 19);
  EXPECT_EQ(parse_bytes("2G").value(), 2ULL << 30);
}

TEST(Sizes, ThatCannotBeReadAreNamedInTheError) {
  for (const char* text : {"", "K", "12X", "-4", "4KBs", "nan", "inf", "1e30", "4 4"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(bytes.error().message.find("'" + std::string(text) + "'"), std::string::npos) << bytes.error().message;
  }
}

TEST(Sizes, AreShownWithThreeDigitsAtMost) {
  EXPECT_EQ(show_bytes(8), "8 B");
  EXPECT_EQ(show_bytes(1024), "1 KB");
  EXPECT_EQ(show_bytes(1536), "1.50 KB");
  EXPECT_EQ(show_bytes(32ULL << 20), "32 MB");
  EXPECT_EQ(show_bytes((23ULL << 30) + (1ULL << 29)), "23.5 GB");
}

TEST(NumberLists, AreReadAsTheKernelWritesThem) {
  EXPECT_EQ(parse_number_list("0-3,8").value(), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_number_list("5").value(), (std::vector<int>{5}));
  EXPECT_TRUE(parse_number_list("").value().empty());
  for (const char* text : {"3-1", "a", "1-", "-1", "1,,2", "1-99999999"}) EXPECT_FALSE(parse_number_list(text)) << text;
}

TEST(Lines, HoldBackWhatHasNoEndOfLineYet) {
  Lines lines("[1] ");
  EXPECT_EQ(lines.feed("hel"), "");
  EXPECT_EQ(lines.feed("lo\nwor"), "[1] hello\n");
  EXPECT_EQ(lines.feed("ld\n\n"), "[1] world\n[1] \n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(Lines, GiveWhatIsLeftAtTheEnd) {
  Lines lines("> ");
  EXPECT_EQ(lines.feed("no end of line"), "");
  EXPECT_EQ(lines.finish(), "> no end of line\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(Lines, DoNotHoldMoreThanALongLine) {
  Lines lines("");
  const std::string endless(1 << 16, 'x');
  EXPECT_EQ(lines.feed(endless), endless + "\n");
}

TEST(ExitOfARank, IsToldAsAShellWould) {
  const int exited_3 = 3 << 8;
  EXPECT_EQ(exit_status_of(exited_3), 3);
  EXPECT_EQ(describe_end(exited_3), "exited with status 3");
  EXPECT_EQ(exit_status_of(SIGKILL), 137);
  EXPECT_EQ(describe_end(SIGKILL), "was killed by signal 9 (Killed)");
}

}  // namespace
}  // namespace tutti::cli
