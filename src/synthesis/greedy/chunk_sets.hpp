// Sets of chunks, one for each of several owners, as rows of bits. Plain value.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti {

class ChunkSets {
 public:
  using Word = std::uint64_t;
  static constexpr int kWordBits = 64;

  ChunkSets(int owners, int chunks)
      : words_(static_cast<std::size_t>((chunks + kWordBits - 1) / kWordBits)),
        bits_(words_ * static_cast<std::size_t>(owners)) {}

  std::size_t words() const { return words_; }
  const Word* of(int owner) const { return &bits_[static_cast<std::size_t>(owner) * words_]; }
  bool has(int owner, int chunk) const { return ((bits_[place(owner, chunk)] >> (chunk % kWordBits)) & 1) != 0; }
  void add(int owner, int chunk) { bits_[place(owner, chunk)] |= Word{1} << (chunk % kWordBits); }

 private:
  std::size_t place(int owner, int chunk) const {
    return static_cast<std::size_t>(owner) * words_ + static_cast<std::size_t>(chunk / kWordBits);
  }

  std::size_t words_;
  std::vector<Word> bits_;
};

}  // namespace tutti
