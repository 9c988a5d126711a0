#include "synthesis/folder/program_folder.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "documents/text_file.hpp"
#include "program/formats/format.hpp"
#include "topology/builtin/builtin.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class ProgramFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "tutti_program_folder_XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  bool has(const std::string& name) const { return fs::exists(folder_ / name); }

  std::vector<SynthesizedCollective> synthesized(Collective collective) const {
    auto found = synthesize(topology_, {.collective = collective, .sizes = {1024, 1 << 20}, .seconds = 0.5});
    EXPECT_TRUE(found) << found.error().message;
    std::vector<SynthesizedCollective> all;
    all.push_back({collective, 0, std::move(*found), {}});
    return all;
  }

  fs::path folder_;
  Topology topology_ = make_builtin("ndv2").value();
};

TEST_F(ProgramFolder, HoldsProgramsCertificatesAndReports) {
  auto all = synthesized(Collective::all_gather);
  const Status written = write_program_folder(folder_, topology_, all, {});
  ASSERT_TRUE(written) << written.error().message;
  ASSERT_EQ(all[0].files.size(), all[0].found.programs.size());
  for (std::size_t i = 0; i < all[0].files.size(); ++i) {
    EXPECT_EQ(all[0].files[i], "all_gather." + std::to_string(i) + ".json");
    const auto program = load_program((folder_ / all[0].files[i]).string());
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(program->shape, all[0].found.programs[i].shape);
  }
  for (const char* name : {"topology.json", "bounds/all_gather.0.json", "all_gather.0.xml", "report.html"})
    EXPECT_TRUE(has(name)) << name;
  EXPECT_FALSE(has("all_gather.0.mscclpp")) << "nobody asked for it";
  EXPECT_NE(read_text((folder_ / "report.json").string()).value().find(all[0].files[0]), std::string::npos);
}

TEST_F(ProgramFolder, RefusesAProgramThatDoesNotPassTheChecker) {
  auto all = synthesized(Collective::all_gather);
  all[0].found.programs[0].shape.collective = Collective::all_to_all;
  const Status written = write_program_folder(folder_, topology_, all, {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::internal);
  EXPECT_FALSE(has("all_gather.0.json"));
}

TEST_F(ProgramFolder, ReportsFilesWhoseFormatCannotHoldTheProgram) {
  auto all = synthesized(Collective::gather);  // MSCCL++ has none
  std::vector<std::string> left_out;
  ProgramFolderOptions options;
  options.mscclpp = true;
  options.on_left_out = [&](std::string_view file, std::string_view reason) {
    EXPECT_NE(reason, "");
    left_out.emplace_back(file);
  };
  const Status written = write_program_folder(folder_, topology_, all, options);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_NE(std::find(left_out.begin(), left_out.end(), "gather.0.mscclpp"), left_out.end());
  for (const std::string& file : left_out) EXPECT_FALSE(has(file)) << file;
  EXPECT_TRUE(has("gather.0.json"));
}

}  // namespace
}  // namespace tutti
