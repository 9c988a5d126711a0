// An all-reduce whose result is known, for ranks that run it until told to stop. Element 0 counts the ranks that were.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::integration {

class KnownReduction {
 public:
  KnownReduction(Communicator& communicator, std::size_t count)
      : communicator_(communicator), mine_(count), sum_(count) {
    for (std::size_t i = 0; i < count; ++i) mine_[i] = static_cast<float>(communicator.rank() + i % 1000);
  }

  /// Whether any rank was told; an error where an element is wrong.
  Result<bool> run(bool told) {
    mine_[0] = told ? 1 : 0;
    if (Status done =
            communicator_.all_reduce(mine_.data(), sum_.data(), mine_.size(), DataType::float32, Operator::sum);
        !done)
      return tl::unexpected(done.error());
    const int size = communicator_.size();
    for (std::size_t i = 1; i < sum_.size(); i += 1 + i / 8)
      if (sum_[i] != static_cast<float>(size * (size - 1) / 2 + size * static_cast<int>(i % 1000)))
        return fail(ErrorCode::internal, fmt::format("element {} is {}", i, sum_[i]));
    return sum_[0] != 0;
  }

 private:
  Communicator& communicator_;
  std::vector<float> mine_;
  std::vector<float> sum_;
};

}  // namespace tutti::integration
