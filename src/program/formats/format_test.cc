#include "program/formats/format.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "program/program_test_kit.hpp"

namespace tutti {
namespace {

TEST(AnyFile, IsToldByItsContentAndWrittenByItsExtension) {
  const std::string path = testing::TempDir() + "tutti_format_test_program";
  for (const std::string extension : {".json", ".xml"}) {
    const Status saved = save_program(ring_all_gather(3), path + extension);
    ASSERT_TRUE(saved) << saved.error().message;
    const Result<Program> loaded = load_program(path + extension);
    ASSERT_TRUE(loaded) << loaded.error().message;
    expect_same_program(*loaded, ring_all_gather(3));
    std::remove((path + extension).c_str());
  }
  EXPECT_NE(save_program(ring_all_gather(3), "ring.txt").error().message.find(".json, .xml or .mscclpp.json"),
            std::string::npos);
  EXPECT_NE(load_program("/nowhere/ring.json").error().message.find("/nowhere/ring.json"), std::string::npos);
  EXPECT_NE(parse_program("ring").error().message.find("neither"), std::string::npos);
}

TEST(AnyFile, XmlReductionsGetTheirCompletingStepsMarked) {
  const Program program = ring_all_reduce(4);
  const Result<Program> loaded = parse_program(*save_msccl(program));
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(loaded->part(rank), program.part(rank));
}

}  // namespace
}  // namespace tutti
