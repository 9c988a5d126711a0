#include "reduce/kernels.hpp"

namespace tutti {
namespace {

struct Scalar : UnmaskedParts {
  static constexpr int kVectorBytes = 1;

  template <class Format, int kLanes>
  TUTTI_INLINE static Pack<float, kLanes> decode(Pack<typename Format::Code, kLanes> codes) {
    return tutti::decode<Format, kLanes>(codes);
  }
  template <class Format, int kLanes>
  TUTTI_INLINE static Pack<typename Format::Code, kLanes> encode(Pack<float, kLanes> floats) {
    return static_cast<typename Format::Code>(tutti::encode<Format, kLanes>(floats));
  }

  // Single elements are never streamed: a line written in pieces would cross the bus several times.
  template <typename P>
  TUTTI_INLINE static void stream(void* at, P pack) {
    store(at, pack);
  }
  TUTTI_INLINE static void fence() {}
};

}  // namespace

ReduceKernel scalar_kernel(DataType type, Operator op) { return kernel_of<Scalar>(type, op); }

}  // namespace tutti
