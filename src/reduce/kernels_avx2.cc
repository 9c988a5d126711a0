#include <immintrin.h>

#include "reduce/kernels.hpp"

namespace tutti {
namespace {

struct Avx2 : UnmaskedParts {
  static constexpr int kVectorBytes = 32;

  template <class Format, int kLanes>
  TUTTI_INLINE static Pack<float, kLanes> decode(Pack<typename Format::Code, kLanes> codes) {
    if constexpr (std::is_same_v<Format, Float16>) {
      return (Pack<float, kLanes>)_mm256_cvtph_ps((__m128i)codes);
    } else {
      const __m128i bytes = _mm_cvtsi64_si128(reinterpret<long long>(codes));
      return decode_bytes<Format, kLanes, Avx2>((Pack<std::uint16_t, kLanes>)_mm_cvtepu8_epi16(bytes));
    }
  }

  template <class Format, int kLanes>
  TUTTI_INLINE static Pack<typename Format::Code, kLanes> encode(Pack<float, kLanes> floats) {
    if constexpr (std::is_same_v<Format, Float16>) {
      constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      return (Pack<std::uint16_t, kLanes>)_mm256_cvtps_ph((__m256)floats, kNearestEven);
    } else {
      const auto wide = (__m256i)tutti::encode<Format, kLanes>(floats);
      const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
      return reinterpret<Pack<std::uint8_t, kLanes>>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
    }
  }

  template <typename P>
  TUTTI_INLINE static void stream(void* at, P pack) {
    if constexpr (sizeof(P) == 32) {
      _mm256_stream_si256(static_cast<__m256i*>(at), (__m256i)pack);
    } else if constexpr (sizeof(P) == 16) {
      _mm_stream_si128(static_cast<__m128i*>(at), (__m128i)pack);
    } else {
      _mm_stream_si64(static_cast<long long*>(at), reinterpret<long long>(pack));
    }
  }
  TUTTI_INLINE static void fence() { _mm_sfence(); }
};

}  // namespace

ReduceKernel avx2_kernel(DataType type, Operator op) { return kernel_of<Avx2>(type, op); }

}  // namespace tutti
