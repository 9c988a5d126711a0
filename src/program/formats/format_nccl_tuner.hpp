// Rows for the CSV file of NCCL's example tuner plugin (NCCL_TUNER_CONFIG_FILE): which of NCCL's own algorithms a
// collective of some size is to use, where one of them is as good as anything that could be synthesized. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

enum class NcclAlgorithm { tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
enum class NcclProtocol { ll, ll128, simple };

std::string_view name_of(NcclAlgorithm algorithm);
std::string_view name_of(NcclProtocol protocol);

inline constexpr int kAnyNumber = -1;  // matches all; of channels: as many as NCCL would take

struct NcclTunerRow {
  Collective collective = Collective::all_reduce;
  std::uint64_t min_bytes = 0;  // of the whole vector, as NCCL counts and we do
  std::uint64_t max_bytes = 0;  // still matches; 0: no limit
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = kAnyNumber;
  int nodes = kAnyNumber;
  int ranks = kAnyNumber;
  int pipelined_operations = kAnyNumber;
  int registered_buffers = kAnyNumber;  // 0, 1
};

/// The first row that matches a call counts. Fails for a collective the plugin has no name for, which it would take for
/// an all_reduce, and for a range that nothing is in.
Result<std::string> save_nccl_tuner(const std::vector<NcclTunerRow>& rows);

}  // namespace tutti
