// What NVIDIA's tools say of a host: NCCL's topology XML (NCCL_TOPO_DUMP_FILE) and the matrix of `nvidia-smi topo -m`.
//
// Both describe one host; `nodes` copies of it are joined by their NICs (host.hpp). Neither holds latencies; the matrix
// holds no bandwidths but counts of NVLinks either, so they are assumed: 25 GB/s an NVLink, PCIe 4 x16, and NICs of
// 200 Gb/s. Measure (tutti topo measure) where that matters.
#pragma once

#include <string_view>

#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// <system> with <cpu>, <pci busid link_speed link_width>, <gpu dev rank sm>, <nvlink target count tclass>, <nic>,
/// <net name speed>; other elements and attributes are passed over. GPUs are ranks in the order of `rank`, or without
/// it of `dev`. An NVLink is worth what NCCL takes it for: 20 GB/s on sm 70 and 80, 20.6 on 90, 40 on 100. Several
/// NVSwitches of a host count as one; on sm 90 and later it multicasts and reduces. Errors name the line.
Result<Topology> topology_from_nccl_xml(std::string_view text, int nodes = 1);

/// GPUs whose every pair has the same number of NVLinks, more than a GPU has in all, sit around an NVSwitch; other
/// pairs have their own. PIX and PXB: one PCIe switch; PHB and NODE: one NUMA node; SYS: the link between NUMA nodes.
Result<Topology> topology_from_smi_matrix(std::string_view text, int nodes = 1);

}  // namespace tutti
