// Descriptions of topologies in any format, sketches and certificates.
#include <cstdint>
#include <cstdlib>

#include "bound/certificate.hpp"
#include "topology/formats/format_json.hpp"
#include "topology/formats/format_taccl.hpp"
#include "topology/formats/load.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto topology = tutti::parse_topology(text)) {
    const auto again = tutti::topology_from_json(tutti::topology_to_json(*topology));
    if (!again || !(again->links() == topology->links())) std::abort();
  }
  if (const auto certificate = tutti::certificate_from_json(text)) {
    if (!(tutti::certificate_from_json(tutti::certificate_to_json(*certificate)) == *certificate)) std::abort();
  }
  static const tutti::NodeProfile profile =
      tutti::profile_from_taccl(R"({"gpus_per_node": 4, "nics_per_node": 1, "alpha": 1, "node_betas_list": [2],
                                    "remote_alpha": 3, "remote_beta": 5})")
          .value();
  if (const auto sketch = tutti::sketch_from_taccl(text); sketch && sketch->nodes <= 8)
    (void)tutti::apply_sketch(profile, *sketch);
  return 0;
}
