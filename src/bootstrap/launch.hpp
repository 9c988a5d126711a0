// What the launcher says about this process: which rank it is, of how many, and where to meet.
//
//   source        recognised by                 ranks meet
//   tutti run     TUTTI_RANK                    at TUTTI_ADDRESS, or by TUTTI_UNIQUE_ID
//   torchrun      TORCHELASTIC_RUN_ID           at MASTER_ADDR, first free port above MASTER_PORT (torch has that one)
//   openmpi       OMPI_COMM_WORLD_RANK          through PMIx
//   hydra         PMI_RANK (MPICH, Intel MPI)   through PMI-1
//   manual        RANK                          as torchrun
//   slurm         SLURM_PROCID in a step        through PMIx (srun --mpi=pmix), else on the first node of the step
//   kubernetes    JOB_COMPLETION_INDEX          as torchrun; the size by TUTTI_SIZE or WORLD_SIZE
//
// The first that fits is taken. With any of them TUTTI_ADDRESS=host:port says where to meet, and TUTTI_PORT which
// port; ranks of one host meet on loopback. Through PMI and PMIx rank 0 hands out a UniqueId, secret included; all
// other ways take TUTTI_SECRET(_FILE), and without one reach no further than loopback.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "bootstrap/join.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace tutti {

using Environment = std::map<std::string, std::string>;

enum class Meeting { endpoints, unique_id, pmi, pmix };

struct LaunchInfo {
  std::string source;
  int rank = 0;
  int size = 1;
  int local_rank = -1;  // among the ranks of this host; -1: not said
  int local_size = -1;
  Meeting meeting = Meeting::endpoints;
  std::vector<HostPort> endpoints;  // with PMIx: to fall back on where its library is not installed; may be empty
  std::string unique_id;
  int pmi_descriptor = -1;
  std::string secret;
  std::string job;  // what the launcher calls it
};

/// A pure function of the variables. Errors name the variable that is missing or wrong.
Result<LaunchInfo> launch_info(const Environment& environment);
/// Of this process; the secret may come from TUTTI_SECRET_FILE.
Result<LaunchInfo> from_environment();

/// What join() needs but the blob and the settings. All ranks call it, equally often: through PMI and PMIx it is a
/// collective, and otherwise the calls are numbered, so that one communicator's ranks do not meet another's.
Result<JoinInfo> rendezvous(const LaunchInfo& launch, Deadline deadline);

/// Where newcomers meet ranks that wait for them: by the id they were given, or at the address, which must lead to
/// rank 0 of those ranks.
Result<JoinInfo> growth_place(const LaunchInfo& launch, int rank, int size);

}  // namespace tutti
