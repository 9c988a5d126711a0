#include "program/formats/format_nccl_tuner.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace tutti {
namespace {

/// The example plugin in small: reads lines as it does, with fields by their place, and answers what it would choose.
class Plugin {
 public:
  Plugin(const std::string& text, int nodes, int ranks) : nodes_(nodes), ranks_(ranks) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      EXPECT_LT(line.size() + 1, 256U) << "the plugin reads 255 characters at a time";
      if (line.empty() || line[0] == '#') continue;
      std::vector<std::string> fields;
      std::string copy = line;
      for (char* field = std::strtok(copy.data(), ","); field != nullptr; field = std::strtok(nullptr, ","))
        fields.emplace_back(field);
      EXPECT_GE(fields.size(), 8U) << line;
      EXPECT_LE(fields.size(), 10U) << line;
      rows_.push_back(fields);
    }
  }

  /// "ring simple 4"; "" where no row matches.
  std::string choice(const std::string& collective, std::uint64_t bytes, int pipe_ops = 1, int registered = 0) const {
    const auto matches = [](const std::string& field, int value) {
      return std::atoi(field.c_str()) == -1 || std::atoi(field.c_str()) == value;
    };
    for (const auto& row : rows_)
      if (row[0] == collective && bytes >= std::strtoull(row[1].c_str(), nullptr, 10) &&
          bytes <= std::strtoull(row[2].c_str(), nullptr, 10) && matches(row[6], nodes_) && matches(row[7], ranks_) &&
          (row.size() < 9 || matches(row[8], pipe_ops)) && (row.size() < 10 || matches(row[9], registered)))
        return row[3] + " " + row[4] + " " + row[5];
    return "";
  }

 private:
  int nodes_, ranks_;
  std::vector<std::vector<std::string>> rows_;
};

std::vector<NcclTunerRow> example() {
  NcclTunerRow small, large, gather;
  small.max_bytes = 65536;
  small.algorithm = NcclAlgorithm::tree;
  small.protocol = NcclProtocol::ll;
  small.channels = 2;
  large.min_bytes = 65537;
  large.nodes = 4;
  large.ranks = 32;
  gather.collective = Collective::all_gather;
  gather.algorithm = NcclAlgorithm::nvls_tree;
  gather.protocol = NcclProtocol::ll128;
  gather.registered_buffers = 1;
  return {small, large, gather};
}

TEST(NcclTunerRows, AreChosenByThePluginAsMeant) {
  const Plugin plugin(save_nccl_tuner(example()).value(), 4, 32);
  EXPECT_EQ(plugin.choice("allreduce", 0), "tree ll 2");
  EXPECT_EQ(plugin.choice("allreduce", 65536), "tree ll 2");
  EXPECT_EQ(plugin.choice("allreduce", 65537), "ring simple -1");
  EXPECT_EQ(plugin.choice("allreduce", std::uint64_t{1} << 40), "ring simple -1");
  EXPECT_EQ(plugin.choice("allgather", 1000, 1, 1), "nvls_tree ll128 -1");
  EXPECT_EQ(plugin.choice("allgather", 1000, 1, 0), "");
  EXPECT_EQ(plugin.choice("broadcast", 1000), "");
}

TEST(NcclTunerRows, MatchOnlyTheMachineTheyAreFor) {
  const Plugin plugin(save_nccl_tuner(example()).value(), 2, 16);
  EXPECT_EQ(plugin.choice("allreduce", 1000), "tree ll 2");
  EXPECT_EQ(plugin.choice("allreduce", 1 << 20), "");
}

TEST(NcclTunerRows, AreRefusedWhereThePluginWouldTakeThemForSomethingElse) {
  NcclTunerRow exchange;
  exchange.collective = Collective::all_to_all;
  const auto unknown = save_nccl_tuner({exchange});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("row 0: NCCL's tuner has no all_to_all"), std::string::npos);
  NcclTunerRow empty;
  empty.min_bytes = 10;
  empty.max_bytes = 5;
  const auto no_range = save_nccl_tuner({NcclTunerRow(), empty});
  ASSERT_FALSE(no_range);
  EXPECT_NE(no_range.error().message.find("row 1: from 10 to 5"), std::string::npos);
}

}  // namespace
}  // namespace tutti
