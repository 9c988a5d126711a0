#include "program/formats/format_mscclpp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "program/formats/mscclpp_plan.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;
using mscclpp::Medium;
using mscclpp::PlanConnection;
using mscclpp::PlanOperation;

std::optional<std::string_view> collective_name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "allreduce";
    case Collective::all_gather:
      return "allgather";
    case Collective::reduce_scatter:
      return "reducescatter";
    case Collective::all_to_all:
      return "alltoall";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    default:
      return std::nullopt;
  }
}

/// A list of different things, each by its place in it.
template <typename T>
struct Register {
  std::vector<T> entries;

  int of(const T& entry) {
    const auto found = std::find(entries.begin(), entries.end(), entry);
    if (found != entries.end()) return static_cast<int>(found - entries.begin());
    entries.push_back(entry);
    return static_cast<int>(entries.size()) - 1;
  }
};

/// A peer's buffer, as reached over a medium.
struct RemoteBuffer {
  int rank;
  Buffer buffer;
  Medium medium;

  bool operator==(const RemoteBuffer&) const = default;
};

std::string_view letter_of(Buffer buffer) {
  static constexpr std::string_view kLetters[] = {"i", "o", "s"};
  return kLetters[static_cast<std::size_t>(buffer)];
}

Json local_cells(const std::vector<Cells>& list) {
  Json result = Json::array();
  for (const Cells& cells : list)
    result.push_back({{"type", letter_of(cells.buffer)}, {"index", cells.first}, {"size", cells.count}});
  return result;
}

/// One rank's part of a plan.
class GpuWriter {
 public:
  GpuWriter(const Shape& shape, const mscclpp::ExecutionPlan& plan, int rank)
      : shape_(shape), plan_(plan), rank_(rank) {
    for (int index = 0; index < static_cast<int>(plan.connections.size()); ++index) {
      const PlanConnection& connection = plan.connections[static_cast<std::size_t>(index)];
      if (connection.source == rank || connection.target == rank) channels_of(connection.medium).of(index);
    }
  }

  Result<Json> write() {
    const mscclpp::RankPlan& part = plan_.ranks[static_cast<std::size_t>(rank_)];
    Json blocks = Json::array();
    for (std::size_t index = 0; index < part.blocks.size(); ++index) {
      auto block = write_block(static_cast<int>(index), part.blocks[index]);
      if (!block) return tl::unexpected(block.error());
      blocks.push_back(std::move(*block));
    }
    Json gpu;
    gpu["id"] = rank_;
    // The executor divides by both: ranks that have no such buffer count as the others.
    gpu["input_chunks"] = has_root(shape_.collective) ? shape_.chunks : input_chunks(shape_, rank_);
    gpu["output_chunks"] = has_root(shape_.collective) ? shape_.chunks : output_chunks(shape_, rank_);
    gpu["scratch_chunks"] = part.scratch_chunks;
    gpu["threadblocks"] = std::move(blocks);
    gpu["channels"] = write_channels();
    gpu["remote_buffers"] = write_remote_buffers();
    gpu["semaphores"] = Json::array();
    for (int i = 0; i < part.semaphores; ++i) gpu["semaphores"].push_back({{"init_value", 0}});
    return gpu;
  }

 private:
  /// What a block uses, by medium; its operations count within these lists.
  struct Used {
    Register<int> channels[2];
    Register<int> buffers[2];
  };

  Register<int>& channels_of(Medium medium) { return channels_[static_cast<std::size_t>(medium)]; }

  Result<Json> write_block(int index, const std::vector<PlanOperation>& operations) {
    Used used;
    Json list = Json::array();
    for (const PlanOperation& operation : operations) list.push_back(write_operation(operation, used));
    Json block;
    block["id"] = index;
    block["ops"] = std::move(list);
    block["channels"] = Json::array();
    block["remote_buffer_refs"] = Json::array();
    for (const Medium medium : {Medium::memory, Medium::port}) {
      const auto& channels = used.channels[static_cast<std::size_t>(medium)].entries;
      const auto& buffers = used.buffers[static_cast<std::size_t>(medium)].entries;
      if (channels.size() > mscclpp::kMostChannels || buffers.size() > mscclpp::kMostChannels)
        return fail(
            ErrorCode::unsupported,
            fmt::format("rank {} thread block {} uses {} {} channels and {} memories of peers over them; MSCCL++ "
                        "plans hold {} of each",
                        rank_, index, channels.size(), name_of(medium), buffers.size(), mscclpp::kMostChannels));
      if (!channels.empty())
        block["channels"].push_back({{"channel_type", name_of(medium)}, {"channel_ids", channels}});
      if (!buffers.empty())
        block["remote_buffer_refs"].push_back(
            {{"access_channel_type", name_of(medium)}, {"remote_buffer_ids", buffers}});
    }
    return block;
  }

  Json write_operation(const PlanOperation& operation, Used& used) {
    Json result;
    result["name"] = operation.name;
    if (!operation.sources.empty()) result["src_buff"] = local_cells(operation.sources);
    if (operation.connection < 0) {
      if (!operation.targets.empty()) result["dst_buff"] = local_cells(operation.targets);
      if (operation.name == "re") result["reduce_op"] = "sum";
      if (!operation.semaphores.empty()) result["semaphore_ids"] = operation.semaphores;
      return result;
    }
    const Medium medium = plan_.connections[static_cast<std::size_t>(operation.connection)].medium;
    const auto kind = static_cast<std::size_t>(medium);
    const int channel = used.channels[kind].of(channels_of(medium).of(operation.connection));
    if (!operation.targets.empty()) {
      const Cells& target = operation.targets[0];
      const int buffer = used.buffers[kind].of(remote_buffers_.of({target.rank, target.buffer, medium}));
      result["dst_buff"] = {{{"buffer_id", buffer}, {"index", target.first}, {"size", target.count}}};
    }
    result["channel_ids"] = {channel};
    result["channel_type"] = name_of(medium);
    return result;
  }

  Json write_channels() {
    Json result = Json::array();
    for (const Medium medium : {Medium::memory, Medium::port}) {
      std::vector<int> peers;
      for (const int index : channels_of(medium).entries)
        peers.push_back(plan_.connections[static_cast<std::size_t>(index)].peer_of(rank_));
      if (!peers.empty()) result.push_back({{"channel_type", name_of(medium)}, {"connected_to", peers}});
    }
    return result;
  }

  Json write_remote_buffers() const {
    Json result = Json::array();
    for (const RemoteBuffer& buffer : remote_buffers_.entries)
      result.push_back({{"rank", buffer.rank},
                        {"type", letter_of(buffer.buffer)},
                        {"access_channel_types", Json::array({name_of(buffer.medium)})}});
    return result;
  }

  const Shape& shape_;
  const mscclpp::ExecutionPlan& plan_;
  int rank_;
  Register<int> channels_[2];  // connections, in an order that both ends share
  Register<RemoteBuffer> remote_buffers_;
};

Status check_options(const Program& program, const MscclppOptions& options) {
  if (!collective_name(program.shape.collective))
    return fail(ErrorCode::unsupported, fmt::format("MSCCL++ plans hold no {}", name_of(program.shape.collective)));
  if (program.one_sided)
    return fail(ErrorCode::unsupported, "only two-sided programs become MSCCL++ plans; this one is one-sided");
  if (!(options.in_place ? program.in_place : program.out_of_place))
    return fail(ErrorCode::unsupported,
                fmt::format("the program is not for calls {}", options.in_place ? "in place" : "out of place"));
  if (!options.node_of_rank.empty() && static_cast<int>(options.node_of_rank.size()) != program.shape.ranks)
    return fail(ErrorCode::invalid_argument, fmt::format("nodes of {} ranks are given; the program has {}",
                                                         options.node_of_rank.size(), program.shape.ranks));
  if (options.landing_cells < 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} landing cells; expected at least 1", options.landing_cells));
  return {};
}

}  // namespace

Result<std::string> save_mscclpp(const Program& program, const MscclppOptions& options) {
  if (const Status status = check_options(program, options); !status) return tl::unexpected(status.error());
  const auto plan = mscclpp::make_plan(program, options);
  if (!plan) return tl::unexpected(plan.error());
  Json file;
  file["name"] = program.name.empty() ? "tutti" : program.name;
  file["collective"] = *collective_name(program.shape.collective);
  file["protocol"] = "Simple";
  file["inplace"] = options.in_place;
  file["reuse_resources"] = false;
  file["use_double_scratch_buffer"] = false;
  file["buffer_alignment"] = 16;
  file["num_threads_per_block"] = 1024;
  file["min_message_size"] = program.min_bytes;
  if (program.max_bytes > 0) file["max_message_size"] = program.max_bytes;
  file["gpus"] = Json::array();
  for (int rank = 0; rank < program.shape.ranks; ++rank) {
    auto gpu = GpuWriter(program.shape, *plan, rank).write();
    if (!gpu) return tl::unexpected(gpu.error());
    file["gpus"].push_back(std::move(*gpu));
  }
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tutti
