// The loop of all kernels, over an instruction set, a type and an operator. Each kernels_*.cc defines its `Isa`
// in an unnamed namespace and instantiates everything here with it, so that no instantiation is shared between files
// compiled for different instruction sets. An Isa has
//   kVectorBytes                        bytes of a register; 1: one element at a time
//   decode<Format, kLanes>(codes)       float16 and fp8 to float32
//   encode<Format, kLanes>(floats)      and back
//   stream(at, pack), fence()           a store past the cache, aligned to the pack; ordering all of them
//   load_part, store_part               the first bytes of a pack, the rest zero; nothing beyond them is touched
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "reduce/numeric.hpp"
#include "reduce/operators.hpp"
#include "reduce/pack.hpp"
#include "reduce/reduce.hpp"

namespace tutti {

// Null where the operator has no meaning for the type. The caller knows that the CPU can run them.
ReduceKernel scalar_kernel(DataType type, Operator op);
ReduceKernel avx2_kernel(DataType type, Operator op);
ReduceKernel avx512_kernel(DataType type, Operator op);

/// A type that is computed on as it is stored.
template <class IsaT, typename T>
struct Plain {
  using Isa = IsaT;
  static constexpr int kLanes = Isa::kVectorBytes > int{sizeof(T)} ? Isa::kVectorBytes / int{sizeof(T)} : 1;
  using Stored = Pack<T, kLanes>;
  using Accumulator = Pack<T, kLanes>;
  using Finish = std::conditional_t<std::is_floating_point_v<T>, FloatFinish<T, kLanes>, IntegerFinish<T, kLanes>>;
  static constexpr std::size_t kElementBytes = sizeof(T);

  TUTTI_INLINE static Accumulator unpack(Stored stored) { return stored; }
  TUTTI_INLINE static Stored pack(Accumulator value, const Finish& finish) { return finish.apply(value); }
  template <class Op>
  TUTTI_INLINE static Accumulator combine(Accumulator a, Accumulator b) {
    return Op::template apply<T, kLanes>(a, b);
  }
};

/// A float that is computed on as float32.
template <class IsaT, class Format>
struct Small {
  using Isa = IsaT;
  static constexpr int kLanes = Plain<Isa, float>::kLanes;
  using Stored = Pack<typename Format::Code, kLanes>;
  using Accumulator = Pack<float, kLanes>;
  using Finish = FloatFinish<float, kLanes>;
  static constexpr std::size_t kElementBytes = sizeof(typename Format::Code);

  TUTTI_INLINE static Accumulator unpack(Stored stored) { return Isa::template decode<Format, kLanes>(stored); }
  TUTTI_INLINE static Stored pack(Accumulator value, const Finish& finish) {
    return Isa::template encode<Format, kLanes>(finish.apply(value));
  }
  template <class Op>
  TUTTI_INLINE static Accumulator combine(Accumulator a, Accumulator b) {
    return Op::template apply<float, kLanes>(a, b);
  }
};

/// bfloat16 in registers: two neighbours are the halves of one word, and each is a float32 once the other is shifted
/// or masked away. Nothing has to move between lanes, which is what limits AVX2.
template <class IsaT>
struct PairedBfloat16 {
  using Isa = IsaT;
  static constexpr int kWords = Plain<Isa, float>::kLanes;
  static constexpr int kLanes = 2 * kWords;
  using Words = Pack<std::uint32_t, kWords>;
  using Floats = Pack<float, kWords>;
  using Stored = Words;
  struct Accumulator {
    Floats even, odd;
  };
  using Finish = FloatFinish<float, kWords>;
  static constexpr std::size_t kElementBytes = 2;

  TUTTI_INLINE static Accumulator unpack(Stored stored) {
    return {reinterpret<Floats>(stored << 16), reinterpret<Floats>(stored & splat<std::uint32_t, kWords>(kUpper))};
  }
  TUTTI_INLINE static Stored pack(Accumulator value, const Finish& finish) {
    const Words even = rounded<16, kWords>(reinterpret<Words>(finish.apply(value.even)));
    const Words odd = rounded<16, kWords>(reinterpret<Words>(finish.apply(value.odd)));
    return even >> 16 | (odd & splat<std::uint32_t, kWords>(kUpper));
  }
  template <class Op>
  TUTTI_INLINE static Accumulator combine(Accumulator a, Accumulator b) {
    return {Op::template apply<float, kWords>(a.even, b.even), Op::template apply<float, kWords>(a.odd, b.odd)};
  }

 private:
  static constexpr std::uint32_t kUpper = 0xffff0000;
};

/// fp8 by way of the CPU's conversion of float16, for an Isa that has it. The codes are in words.
template <class Format, int kLanes, class Isa>
TUTTI_INLINE Pack<float, kLanes> decode_bytes(Pack<std::uint16_t, kLanes> codes) {
  if constexpr (std::is_same_v<Format, E5m2>) {  // the upper half of a float16
    return Isa::template decode<Float16, kLanes>(codes << 8);
  } else {  // e4m3 with its fields moved to float16's reads 2^8 times too small, and NaN, the last code, as 480
    const auto words = (codes & splat<std::uint16_t, kLanes>(0x80)) << 8 | (codes & splat<std::uint16_t, kLanes>(0x7f))
                                                                               << 7;
    const auto value = Isa::template decode<Float16, kLanes>(words) * splat<float, kLanes>(256.0f);
    const auto magnitude =
        reinterpret<Pack<std::uint32_t, kLanes>>(value) & splat<std::uint32_t, kLanes>(kFloatMagnitude);
    const auto past = splat<std::uint32_t, kLanes>(reinterpret<std::uint32_t>(480.0f));
    return magnitude == past ? splat<float, kLanes>(__builtin_nanf("")) : value;
  }
}

/// load_part and store_part for those who have no masks.
struct UnmaskedParts {
  template <typename P>
  TUTTI_INLINE static P load_part(const void* from, std::size_t bytes) {
    P padded{};
    __builtin_memcpy(&padded, from, bytes);
    return padded;
  }
  template <typename P>
  TUTTI_INLINE static void store_part(void* to, P pack, std::size_t bytes) {
    __builtin_memcpy(to, &pack, bytes);
  }
};

template <class Element, class Op>
class Kernel {
 public:
  static void run(const ReduceCall& call) {
    if (call.source_count == 1 && Finish(call).does_nothing()) {
      ReduceCall bytes = call;
      bytes.elements = call.elements * Element::kElementBytes;
      bytes.divisor = 1;
      Kernel<Plain<Isa, std::uint8_t>, BitOr>::reduce(bytes);
    } else {
      reduce(call);
    }
  }

  static void reduce(const ReduceCall& call) {
    Work work{call, Finish(call), 0};
    std::size_t at = call.stream ? align(work) : 0;
    if (call.source_count == 2 && call.target_count == 1) {
      at = sweep<kBlock, 2, 1>(work, at);
    } else if (call.source_count == 2 && call.target_count == 2) {
      at = sweep<kBlock, 2, 2>(work, at);
    } else {
      at = sweep<kBlock, kAsCalled, kAsCalled>(work, at);
    }
    at = sweep<1, kAsCalled, kAsCalled>(work, at);
    if (at < call.elements) part(work, at, call.elements - at);
    if (work.streamed != 0) Isa::fence();
  }

 private:
  using Isa = typename Element::Isa;
  using Stored = typename Element::Stored;
  using Accumulator = typename Element::Accumulator;
  using Finish = typename Element::Finish;
  static constexpr std::size_t kLanes = Element::kLanes;
  static constexpr std::size_t kBytes = Element::kElementBytes;
  static constexpr int kBlock = 4;  // packs in flight: enough to hide latency, few enough for AVX2's registers
  static constexpr int kAsCalled = 0;
  static constexpr std::size_t kLine = 64;

  struct Work {
    const ReduceCall& call;
    Finish finish;
    std::uint64_t streamed;  // a bit for each target whose packs are aligned and go past the cache
  };

  /// Reduces blocks of kPacks packs from element `at` on while they fit, and returns the element after them.
  template <int kPacks, int kSources, int kTargets>
  TUTTI_INLINE static std::size_t sweep(const Work& work, std::size_t at) {
    constexpr std::size_t kStep = kPacks * kLanes;
    const Pointers<const void, kSources> sources(work.call.sources, work.call.source_count);
    const Pointers<void, kTargets> targets(work.call.targets, work.call.target_count);
    const std::size_t end = work.call.elements;
    const std::uint64_t streamed = work.streamed;
    const Finish finish = work.finish;
    for (; end - at >= kStep; at += kStep) {
      Accumulator sum[kPacks];
      for (int p = 0; p < kPacks; ++p) sum[p] = read(sources[0], at, p);
      for (int s = 1; s < sources.count(); ++s) {
        for (int p = 0; p < kPacks; ++p) sum[p] = Element::template combine<Op>(sum[p], read(sources[s], at, p));
      }
      Stored result[kPacks];
      for (int p = 0; p < kPacks; ++p) result[p] = Element::pack(sum[p], finish);
      for (int t = 0; t < targets.count(); ++t) {
        std::byte* to = static_cast<std::byte*>(targets[t]) + at * kBytes;
        if (t < 64 && ((streamed >> t) & 1) != 0) {
          for (int p = 0; p < kPacks; ++p) Isa::stream(to + p * sizeof(Stored), result[p]);
        } else {
          for (int p = 0; p < kPacks; ++p) store(to + p * sizeof(Stored), result[p]);
        }
      }
    }
    return at;
  }

  TUTTI_INLINE static Accumulator read(const void* source, std::size_t at, int p) {
    return Element::unpack(load<Stored>(static_cast<const std::byte*>(source) + at * kBytes + p * sizeof(Stored)));
  }

  /// Fewer elements than a pack has, by way of a padded one: the arithmetic is that of all others.
  [[gnu::noinline]] static void part(const Work& work, std::size_t at, std::size_t count) {
    const ReduceCall& call = work.call;
    const std::size_t bytes = count * kBytes;
    Accumulator sum = read_part(call.sources[0], at, bytes);
    for (int s = 1; s < call.source_count; ++s)
      sum = Element::template combine<Op>(sum, read_part(call.sources[s], at, bytes));
    const Stored result = Element::pack(sum, work.finish);
    for (int t = 0; t < call.target_count; ++t)
      Isa::store_part(static_cast<std::byte*>(call.targets[t]) + at * kBytes, result, bytes);
  }

  TUTTI_INLINE static Accumulator read_part(const void* source, std::size_t at, std::size_t bytes) {
    return Element::unpack(Isa::template load_part<Stored>(static_cast<const std::byte*>(source) + at * kBytes, bytes));
  }

  /// Reduces the elements before the first target's next cache line, and marks every target that is aligned there.
  /// Returns the element reached: 0 where no target can be streamed.
  static std::size_t align(Work& work) {
    const ReduceCall& call = work.call;
    const std::size_t ahead = (kLine - reinterpret_cast<std::uintptr_t>(call.targets[0]) % kLine) % kLine;
    if (kLanes == 1 || ahead % kBytes != 0 || ahead / kBytes >= call.elements) return 0;
    for (int t = 0; t < call.target_count && t < 64; ++t) {
      const auto address = reinterpret_cast<std::uintptr_t>(call.targets[t]) + ahead;
      if (address % kLine == 0) work.streamed |= std::uint64_t{1} << t;
    }
    const std::size_t head = ahead / kBytes;
    for (std::size_t at = 0; at < head; at += kLanes) part(work, at, head - at < kLanes ? head - at : kLanes);
    return head;
  }

  /// The call's pointers; a known number of them is held in registers, where a store cannot seem to change them.
  template <typename T, int kCount>
  class Pointers {
   public:
    TUTTI_INLINE Pointers(T* const* pointers, int) {
      for (int i = 0; i < kCount; ++i) pointers_[i] = pointers[i];
    }
    TUTTI_INLINE T* operator[](int i) const { return pointers_[i]; }
    TUTTI_INLINE static constexpr int count() { return kCount; }

   private:
    T* pointers_[kCount];
  };
  template <typename T>
  class Pointers<T, kAsCalled> {
   public:
    TUTTI_INLINE Pointers(T* const* pointers, int count) : pointers_(pointers), count_(count) {}
    TUTTI_INLINE T* operator[](int i) const { return pointers_[i]; }
    TUTTI_INLINE int count() const { return count_; }

   private:
    T* const* pointers_;
    int count_;
  };
};

template <class Element>
ReduceKernel arithmetic_kernel(Operator op) {
  switch (op) {
    case Operator::sum:
    case Operator::average:
    case Operator::premultiplied_sum:
      return &Kernel<Element, Sum>::run;
    case Operator::product:
      return &Kernel<Element, Product>::run;
    case Operator::min:
      return &Kernel<Element, Min>::run;
    case Operator::max:
      return &Kernel<Element, Max>::run;
    default:
      return nullptr;
  }
}

template <class Isa, typename T>
ReduceKernel integer_kernel(Operator op) {
  using Element = Plain<Isa, T>;
  switch (op) {
    case Operator::bit_and:
      return &Kernel<Element, BitAnd>::run;
    case Operator::bit_or:
      return &Kernel<Element, BitOr>::run;
    case Operator::bit_xor:
      return &Kernel<Element, BitXor>::run;
    default:
      return arithmetic_kernel<Element>(op);
  }
}

template <class Isa>
ReduceKernel kernel_of(DataType type, Operator op) {
  switch (type) {
    case DataType::int8:
      return integer_kernel<Isa, std::int8_t>(op);
    case DataType::uint8:
      return integer_kernel<Isa, std::uint8_t>(op);
    case DataType::int32:
      return integer_kernel<Isa, std::int32_t>(op);
    case DataType::uint32:
      return integer_kernel<Isa, std::uint32_t>(op);
    case DataType::int64:
      return integer_kernel<Isa, std::int64_t>(op);
    case DataType::uint64:
      return integer_kernel<Isa, std::uint64_t>(op);
    case DataType::float16:
      return arithmetic_kernel<Small<Isa, Float16>>(op);
    case DataType::bfloat16:
      return arithmetic_kernel<PairedBfloat16<Isa>>(op);
    case DataType::float32:
      return arithmetic_kernel<Plain<Isa, float>>(op);
    case DataType::float64:
      return arithmetic_kernel<Plain<Isa, double>>(op);
    case DataType::float8_e4m3:
      return arithmetic_kernel<Small<Isa, E4m3>>(op);
    case DataType::float8_e5m2:
      return arithmetic_kernel<Small<Isa, E5m2>>(op);
  }
  return nullptr;
}

}  // namespace tutti
