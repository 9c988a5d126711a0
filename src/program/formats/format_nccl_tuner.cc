#include "program/formats/format_nccl_tuner.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>

namespace tutti {
namespace {

std::optional<std::string_view> plugin_name_of(Collective collective) {
  switch (collective) {
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::all_gather:
      return "allgather";
    case Collective::reduce_scatter:
      return "reducescatter";
    case Collective::all_reduce:
      return "allreduce";
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string_view name_of(NcclAlgorithm algorithm) {
  static constexpr std::string_view kNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                                "nvls_tree", "pat"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::string_view name_of(NcclProtocol protocol) {
  static constexpr std::string_view kNames[] = {"ll", "ll128", "simple"};
  return kNames[static_cast<std::size_t>(protocol)];
}

Result<std::string> save_nccl_tuner(const std::vector<NcclTunerRow>& rows) {
  std::string text = "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff\n";
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const NcclTunerRow& row = rows[index];
    const auto name = plugin_name_of(row.collective);
    if (!name)
      return fail(ErrorCode::unsupported, fmt::format("row {}: NCCL's tuner has no {}; expected broadcast, reduce, "
                                                      "all_gather, reduce_scatter or all_reduce",
                                                      index, name_of(row.collective)));
    const std::uint64_t most = row.max_bytes > 0 ? row.max_bytes : std::numeric_limits<std::uint64_t>::max();
    if (most < row.min_bytes)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("row {}: from {} to {} bytes is no range", index, row.min_bytes, row.max_bytes));
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", *name, row.min_bytes, most, name_of(row.algorithm),
                        name_of(row.protocol), row.channels, row.nodes, row.ranks, row.pipelined_operations,
                        row.registered_buffers);
  }
  return text;
}

}  // namespace tutti
