// Whatever bytes or text come from the wire, the launcher or a person: decoders accept exactly what encoders make, and
// expanders stay within their limits.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "bootstrap/nodelist.hpp"
#include "bootstrap/pmi.hpp"
#include "bootstrap/unique_id.hpp"
#include "bootstrap/wire.hpp"
#include "net/socket.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void fuzz_wire(std::span<const std::byte> bytes) {
  using namespace tutti;
  const auto same = [&](const Blob& frame) {
    return std::equal(bytes.begin(), bytes.end(), frame.begin() + kLengthBytes, frame.end());
  };
  if (const auto request = decode_request(bytes)) require(same(encode_request(*request)));
  if (const auto ranks = decode_size(bytes)) require(same(encode_size(*ranks)));
  if (const auto gathered = decode_answer(bytes)) require(same(encode_gathered(*gathered)));
}

void fuzz_id(std::span<const std::byte> bytes) {
  using namespace tutti;
  UniqueId::Bytes id{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), id.size()), id.begin());
  if (const auto parts = decode_id(id)) require(!parts->addresses.empty());
}

void fuzz_text(const std::string& text) {
  using namespace tutti;
  if (const auto nodes = expand_nodelist(text)) require(!nodes->empty() && nodes->size() <= 65536);
  if (const auto tasks = expand_tasks_per_node(text)) require(tasks->size() <= 65536);
  if (const auto address = SocketAddress::parse(text)) require(*SocketAddress::parse(address->to_string()) == *address);
  (void)parse_port_range(text);
  (void)pmi_field(text, "value");
  (void)UniqueId::from_string(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz_wire(std::as_bytes(std::span(data, size)));
  fuzz_id(std::as_bytes(std::span(data, size)));
  fuzz_text(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
