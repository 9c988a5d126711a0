// MPI; compiled once against Open MPI and once against MPICH.
#include <mpi.h>

#include "loop.hpp"

namespace {

using peers::Collective;

class MpiLibrary final : public peers::Library {
 public:
  MpiLibrary() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool supports(Collective) const override { return true; }

  void run(const peers::Operation& op) override {
    const int count = static_cast<int>(op.count);
    switch (op.collective) {
      case Collective::all_reduce:
        MPI_Allreduce(op.send, op.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
      case Collective::all_gather:
        MPI_Allgather(op.send, count, MPI_FLOAT, op.recv, count, MPI_FLOAT, MPI_COMM_WORLD);
        return;
      case Collective::reduce_scatter:
        MPI_Reduce_scatter_block(op.send, op.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
      case Collective::broadcast:
        MPI_Bcast(rank_ == op.root ? const_cast<float*>(op.send) : op.recv, count, MPI_FLOAT, op.root, MPI_COMM_WORLD);
        return;
      case Collective::all_to_all:
        MPI_Alltoall(op.send, count, MPI_FLOAT, op.recv, count, MPI_FLOAT, MPI_COMM_WORLD);
        return;
      case Collective::send_recv:
        return ping_pong(op.send, op.recv, count);
    }
  }

 private:
  void ping_pong(const float* send, float* recv, int count) const {
    const int partner = rank_ ^ 1;
    if (rank_ < partner) {
      MPI_Send(send, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD);
      MPI_Recv(recv, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(recv, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(send, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD);
    }
  }

  int rank_ = 0;
  int size_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Options options = peers::read_options(argc, argv);
  MPI_Init(&argc, &argv);
  {
    MpiLibrary library;
    peers::run_loop(library, "mpi", options);
  }
  MPI_Finalize();
}
