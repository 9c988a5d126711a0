// A host as drivers describe it: GPUs and NICs on a tree of PCIe bridges, NVLinks beside it. What the readers of NCCL's
// and nvidia-smi's descriptions have in common.
//
// Where NVLinks join all GPUs, the PCIe tree serves only the way to the NICs: software never sends from GPU to GPU
// over it, so it becomes two trees, one that leads out and one that leads in (topology.hpp). Else it is one tree, and
// GPUs reach each other through it.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace tutti {

struct HostDescription {
  static constexpr int kRoot = -1;  // as a bridge's parent: joined with all other roots

  struct Bridge {
    std::string name;
    int parent = kRoot;
    Rational bandwidth;  // up to the parent
  };
  struct Device {
    std::string name;
    int bridge = 0;
    Rational bandwidth;  // to the bridge
  };
  struct Gpu : Device {
    Rational switch_bandwidth;  // into the host's NVSwitch; 0: none
  };
  struct Nic : Device {
    Rational network_bandwidth;
  };
  struct Nvlink {
    int one = 0, other = 0;  // GPUs
    Rational bandwidth;      // one way
  };

  std::vector<Bridge> bridges;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  std::vector<Nvlink> nvlinks;
  SwitchSkills switch_skills;
};

/// `nodes` copies of the host, their NICs joined by one switch, "network". One host alone has no use for its NICs.
/// Descriptions hold no latencies: 0.7 us over NVLink, 0.5 us a PCIe hop and 2.6 us between NICs are assumed, about
/// what is measured on such machines (builtin_servers.cc).
Topology make_cluster(const HostDescription& host, int nodes);

}  // namespace tutti
