#include <cstdint>

#include "fuzz_program.hpp"
#include "program/formats/format_msccl.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto program = tutti::load_msccl({reinterpret_cast<const char*>(data), size});
  if (!program || !tutti::is_small(*program)) return 0;
  tutti::require_round_trip(*program);
  return 0;
}
