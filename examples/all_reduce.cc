// Sums a vector over all ranks. Start it with `tutti run -n 4 -- build/bin/example_all_reduce`, or with torchrun, srun
// or mpirun.
#include <cstdio>
#include <tutti/tutti.hpp>
#include <vector>

int main() {
  auto communicator = tutti::Communicator::create_from_environment();
  if (!communicator) {
    std::fprintf(stderr, "%s\n", communicator.error().to_string().c_str());
    return 1;
  }
  std::vector<float> values(1 << 20, static_cast<float>(communicator->rank() + 1));
  const auto done = communicator->all_reduce(values.data(), values.data(), values.size(), tutti::DataType::float32,
                                             tutti::Operator::sum);
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
    return 1;
  }
  const int size = communicator->size();
  std::printf("rank %d of %d: sum %g, expected %g\n", communicator->rank(), size, values[0], size * (size + 1) / 2.0);
  return values[0] == static_cast<float>(size * (size + 1)) / 2.0F ? 0 : 1;
}
