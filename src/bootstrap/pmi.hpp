// What process managers offer their processes: a place to leave a value, a barrier, and a way to read it.
// Both functions are collective over all processes of the job and return rank 0's `value`. Keys must be new each time.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Through MPICH's PMI-1 wire protocol on PMI_FD. Borrows the descriptor and leaves the manager's idea of this process
/// as it was, so that an MPI library in the same process can still start (or has started, and is not talking now).
/// Values: no white space, below 1,024 characters.
Result<std::string> broadcast_by_pmi(int descriptor, int rank, const std::string& key, const std::string& value,
                                     Deadline deadline);

/// Through PMIx: Open MPI, PRRTE, srun --mpi=pmix. libpmix.so.2 is opened at run time; `unsupported` where there is
/// none.
Result<std::string> broadcast_by_pmix(int rank, const std::string& key, const std::string& value, Deadline deadline);

/// One line of PMI-1, "cmd=get_result rc=0 value=abc": the value of `field`, or "" where there is none.
std::string pmi_field(const std::string& line, const std::string& field);

}  // namespace tutti
