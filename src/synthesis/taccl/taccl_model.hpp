// The machine as TACCL's stages see it: ranks, links with a cost for a chunk, and ports that links share.
//
// A chunk takes alpha + beta on a link; a link, and a port that several links share, carries one chunk after the other.
// Ports are those of a sketch's switches, in and out of every GPU around one, and from three nodes on one in and one
// out of every GPU that is connected with other nodes. Between two nodes every connection is on its own, with its part
// of the NICs' bandwidth, as TACCL has it. Unlike TACCL's, costs are not rounded to whole numbers. Planes of a switch
// make its links faster, instead of many.
//
// Not the sketched Topology (apply_sketch), on which the same transfers can be simulated: there a chunk is through a
// link's latency before the link is free again. Plain values.
#pragma once

#include <vector>

#include "topology/formats/format_taccl.hpp"
#include "topology/sketch/sketch.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct TacclLink {
  int from = 0;  // ranks
  int to = 0;
  double alpha = 0;  // seconds
  double beta = 0;   // seconds for a chunk
  bool remote = false;

  double cost() const { return alpha + beta; }
};

/// Links that take turns: all out of a rank, or all into it.
struct TacclPort {
  int rank = 0;
  bool outgoing = false;
  bool remote = false;
  std::vector<int> links;
};

struct TacclModel {
  int nodes = 1;
  int gpus = 0;  // per node
  int chunks = 1;
  double chunk_bytes = 0;
  std::vector<TacclLink> links;
  std::vector<TacclPort> ports;
  std::vector<std::vector<int>> senders_of;  // [rank] the ranks its chunks leave the node through; empty: any
  bool own_chunks_first = false;
  bool has_switches = false;
  ConnectionPolicy policy = ConnectionPolicy::any;
  LinkBalance balance = LinkBalance::none;
  std::vector<SymmetryOffset> symmetries;

  int ranks() const { return nodes * gpus; }
  int node_of(int rank) const { return rank / gpus; }
  /// [link] the ports it goes through.
  std::vector<std::vector<int>> ports_of_links() const;
};

/// `bytes` of the whole vector, as certificates count, that is all ranks' chunks; 0: as much as the file's times are
/// for. The sketch must fit the profile, which apply_sketch checks first.
Result<TacclModel> taccl_model(const NodeProfile& profile, const Sketch& sketch, double bytes = 0);

/// Every link turned round: for the all_gather that is a reduce_scatter backwards. Chunks that leave a node through a
/// sender leave it, turned round, through the GPUs this sender is connected with.
TacclModel reversed(const TacclModel& model);

}  // namespace tutti
