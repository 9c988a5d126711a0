#include "agent/recent.hpp"

#include <fmt/core.h>

#include <cmath>

#include "agent/names.hpp"
#include "base/version.hpp"
#include "program/nccl_names.hpp"

namespace tutti::agent {
namespace {

constexpr double kToldFor = 60;  // seconds

/// In NCCL Inspector's order and words, and what tells ranks and communicators of one name apart.
Labels labels_of(const monitor::ProcessView& process, const monitor::CommunicatorView& communicator,
                 const monitor::OperationView& operation) {
  const auto or_unknown = [](const std::string& text) { return text.empty() ? std::string("unknown") : text; };
  const bool is_point_to_point = operation.collective == Collective::point_to_point;
  Labels labels;
  labels.add("version", library_version().to_string())
      .add("slurm_job_id", or_unknown(process.launcher_job))
      .add("node", process.host)
      .add("gpu", "none")
      .add("comm_name", communicator_name(communicator.name, communicator.id))
      .add("n_nodes", communicator.hosts)
      .add("nranks", communicator.size)
      .add(is_point_to_point ? "p2p_operation" : "collective", nccl_name_of(operation.collective, operation.sends))
      .add("message_size", size_range(monitor::size_class(operation.bytes)));
  if (!is_point_to_point) labels.add("algo_proto", or_unknown(operation.program));
  labels.add("rank", communicator.rank).add("pid", process.pid).add("comm_id", fmt::format("{:016x}", communicator.id));
  return labels;
}

}  // namespace

struct RecentOperations::OperationSums {
  Labels labels;
  bool is_point_to_point = false;
  int count = 0, moved = 0;
  double seconds = 0, log_bandwidth = 0;
};

void RecentOperations::look(const monitor::Snapshot& snapshot) {
  std::map<Communicator, std::uint64_t> next;
  for (const monitor::ProcessView& process : snapshot.processes) {
    if (!process.alive) continue;
    for (const monitor::CommunicatorView& each : process.communicators) {
      // The moment it was created comes from ticks whose rate is measured anew each time.
      const Communicator key{process.file, each.id, std::round(each.created)};
      const auto known = next_.find(key);
      next[key] = look_at(process, each, snapshot.now, known == next_.end() ? 0 : known->second);
    }
  }
  next_ = std::move(next);
  std::erase_if(means_, [&](const auto& mean) { return snapshot.now - mean.second.at > kToldFor; });
}

std::uint64_t RecentOperations::look_at(const monitor::ProcessView& process,
                                        const monitor::CommunicatorView& communicator, double now, std::uint64_t next) {
  std::map<std::tuple<Collective, bool, int, std::string>, OperationSums> sums;
  for (const monitor::OperationView& operation : communicator.operations) {
    if (operation.index < next) continue;
    next = operation.index + 1;
    const double seconds = operation.done - operation.entered;
    if (operation.failed || seconds <= 0) continue;
    OperationSums& sum =
        sums[{operation.collective, operation.sends, monitor::size_class(operation.bytes), operation.program}];
    if (sum.count++ == 0) {
      sum.labels = labels_of(process, communicator, operation);
      sum.is_point_to_point = operation.collective == Collective::point_to_point;
    }
    sum.seconds += seconds;
    const double moved = bus_factor(operation.collective, communicator.size) * static_cast<double>(operation.bytes);
    if (moved == 0) continue;
    ++sum.moved;
    sum.log_bandwidth += std::log(moved / seconds);
  }
  for (const auto& [key, sum] : sums)
    means_[sum.labels.text()] = {sum.labels, sum.is_point_to_point, now, sum.seconds / sum.count,
                                 sum.moved == 0 ? 0 : std::exp(sum.log_bandwidth / sum.moved)};
  return next;
}

void RecentOperations::write_family(Exposition& to, bool is_point_to_point, bool is_time) const {
  for (const auto& [key, mean] : means_) {
    if (mean.is_point_to_point != is_point_to_point) continue;
    if (is_time)
      to.sample(mean.labels, 1e6 * mean.seconds);
    else if (mean.bandwidth > 0)
      to.sample(mean.labels, 1e-9 * mean.bandwidth);
  }
}

void RecentOperations::write(Exposition& to) const {
  using Type = Exposition::Type;
  to.family("nccl_bus_bandwidth_gbs", Type::gauge, "Bus bandwidth of collectives that ended lately, GB/s");
  write_family(to, false, false);
  to.family("nccl_collective_exec_time_microseconds", Type::gauge, "Time of collectives that ended lately");
  write_family(to, false, true);
  to.family("nccl_p2p_bus_bandwidth_gbs", Type::gauge, "Bandwidth of sends and receives that ended lately, GB/s");
  write_family(to, true, false);
  to.family("nccl_p2p_exec_time_microseconds", Type::gauge, "Time of sends and receives that ended lately");
  write_family(to, true, true);
}

}  // namespace tutti::agent
