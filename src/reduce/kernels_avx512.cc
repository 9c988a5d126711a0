#include <immintrin.h>

#include "reduce/kernels.hpp"

namespace tutti {
namespace {

struct Avx512 {
  static constexpr int kVectorBytes = 64;

  template <class Format, int kLanes>
  TUTTI_INLINE static Pack<float, kLanes> decode(Pack<typename Format::Code, kLanes> codes) {
    if constexpr (std::is_same_v<Format, Float16>) {
      return (Pack<float, kLanes>)_mm512_maskz_cvtph_ps(kAllLanes, (__m256i)codes);
    } else {
      return decode_bytes<Format, kLanes, Avx512>((Pack<std::uint16_t, kLanes>)_mm256_cvtepu8_epi16((__m128i)codes));
    }
  }

  template <class Format, int kLanes>
  TUTTI_INLINE static Pack<typename Format::Code, kLanes> encode(Pack<float, kLanes> floats) {
    if constexpr (std::is_same_v<Format, Float16>) {
      constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      return (Pack<std::uint16_t, kLanes>)_mm512_maskz_cvtps_ph(kAllLanes, (__m512)floats, kNearestEven);
    } else {
      const auto wide = (__m512i)tutti::encode<Format, kLanes>(floats);
      return (Pack<std::uint8_t, kLanes>)_mm512_maskz_cvtepi32_epi8(kAllLanes, wide);
    }
  }

  template <typename P>
  TUTTI_INLINE static void stream(void* at, P pack) {
    if constexpr (sizeof(P) == 64) {
      _mm512_stream_si512(static_cast<__m512i*>(at), (__m512i)pack);
    } else if constexpr (sizeof(P) == 32) {
      _mm256_stream_si256(static_cast<__m256i*>(at), (__m256i)pack);
    } else {
      _mm_stream_si128(static_cast<__m128i*>(at), (__m128i)pack);
    }
  }
  TUTTI_INLINE static void fence() { _mm_sfence(); }

  template <typename P>
  TUTTI_INLINE static P load_part(const void* from, std::size_t bytes) {
    const std::uint64_t mask = (std::uint64_t{1} << bytes) - 1;  // of less than 64
    if constexpr (sizeof(P) == 64) {
      return (P)_mm512_maskz_loadu_epi8(mask, from);
    } else if constexpr (sizeof(P) == 32) {
      return (P)_mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from);
    } else {
      return (P)_mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), from);
    }
  }
  template <typename P>
  TUTTI_INLINE static void store_part(void* to, P pack, std::size_t bytes) {
    const std::uint64_t mask = (std::uint64_t{1} << bytes) - 1;
    if constexpr (sizeof(P) == 64) {
      _mm512_mask_storeu_epi8(to, mask, (__m512i)pack);
    } else if constexpr (sizeof(P) == 32) {
      _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), (__m256i)pack);
    } else {
      _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), (__m128i)pack);
    }
  }

 private:
  // The unmasked intrinsics start from an undefined register, which g++ 12 warns of.
  static constexpr __mmask16 kAllLanes = 0xffff;
};

}  // namespace

ReduceKernel avx512_kernel(DataType type, Operator op) { return kernel_of<Avx512>(type, op); }

}  // namespace tutti
