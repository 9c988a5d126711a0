// A user's program: one rank that sums with nobody else.
#include <cstdio>
#include <tutti/tutti.hpp>

int main() {
  auto communicator = tutti::Communicator::create(tutti::UniqueId::create().value(), 0, 1);
  if (!communicator) {
    std::fprintf(stderr, "%s\n", communicator.error().to_string().c_str());
    return 1;
  }
  const float mine = 3;
  float sum = 0;
  const auto done = communicator->all_reduce(&mine, &sum, 1, tutti::DataType::float32, tutti::Operator::sum);
  return done && sum == mine ? 0 : 1;
}
