// The same with MPI; compiled once against Open MPI and once against MPICH.
#include <mpi.h>

#include "start.hpp"

int main(int argc, char** argv) {
  if (argc != 2) startup::give_up("expected the number of processes");
  startup::Start start(std::atoi(argv[1]));
  start.call();
  MPI_Init(&argc, &argv);
  start.created();
  MPI_Barrier(MPI_COMM_WORLD);
  start.ended();
  MPI_Finalize();
}
