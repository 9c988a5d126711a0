// Which kernel runs: the CPU's best instruction set, lowered by TUTTI_ISA.
#include <cpuid.h>

#include <algorithm>
#include <string_view>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "reduce/kernels.hpp"
#include "reduce/reduce.hpp"

namespace tutti {
namespace {

bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

Isa detect_cpu() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return Isa::scalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Isa::avx512 : Isa::avx2;
}

Isa cpu_isa() {
  static const Isa isa = detect_cpu();
  return isa;
}

Isa chosen_isa(std::string_view wish) {
  const Isa best = cpu_isa();
  if (wish.empty()) return best;
  if (wish == "scalar") return Isa::scalar;
  if (wish == "avx2") return std::min(best, Isa::avx2);
  if (wish == "avx512") return best;
  log::error("TUTTI_ISA is \"{}\"; expected scalar, avx2 or avx512: using the best this CPU has", wish);
  return best;
}

bool is_known(DataType type) { return static_cast<int>(type) < kDataTypes; }
bool is_known(Operator op) { return static_cast<int>(op) < kOperators; }

}  // namespace

Isa best_isa() {
  static const Isa isa = chosen_isa(settings().isa);
  return isa;
}

ReduceKernel find_kernel(DataType type, Operator op, Isa isa) {
  switch (std::min(isa, cpu_isa())) {
    case Isa::avx512:
      return avx512_kernel(type, op);
    case Isa::avx2:
      return avx2_kernel(type, op);
    case Isa::scalar:
      break;
  }
  return scalar_kernel(type, op);
}

Status supports(DataType type, const Reduction& reduction) {
  const Operator op = reduction.op;
  if (!is_known(type)) {
    return fail(ErrorCode::invalid_argument, fmt::format("data type {} does not exist (operator {}); expected 0 to {}",
                                                         static_cast<int>(type), name_of(op), kDataTypes - 1));
  }
  if (!is_known(op)) {
    return fail(ErrorCode::invalid_argument, fmt::format("operator {} does not exist (type {}); expected 0 to {}",
                                                         static_cast<int>(op), name_of(type), kOperators - 1));
  }
  if (op == Operator::user) {
    if (reduction.function != nullptr) return {};
    return fail(ErrorCode::invalid_argument,
                fmt::format("operator user on {} comes without a function; expected one", name_of(type)));
  }
  if (find_kernel(type, op) != nullptr) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("operator {} has no meaning for {}; expected an integer type", name_of(op), name_of(type)));
}

}  // namespace tutti
