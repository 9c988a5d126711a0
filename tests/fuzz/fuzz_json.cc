#include <cstdint>

#include "fuzz_program.hpp"
#include "program/formats/format_msccl.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto program = tutti::load_json({reinterpret_cast<const char*>(data), size});
  if (!program || !tutti::is_small(*program)) return 0;
  tutti::require_round_trip(*program);
  // What XML can hold of it must be XML that reads back.
  if (const auto xml = tutti::save_msccl(*program)) {
    if (!tutti::load_msccl(*xml)) std::abort();
  }
  return 0;
}
