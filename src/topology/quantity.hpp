// Bandwidths and latencies as people write them: a number and its unit. Exact both ways.
#pragma once

#include <string>
#include <string_view>

#include "topology/rational.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Bytes per second from "25 GB/s", "200 Gb/s" (bits), "3.2 GiB/s", "1000/23 GB/s"; k, M, G, T are powers of 1000, Ki,
/// Mi, Gi, Ti of 1024.
Result<Rational> parse_bandwidth(std::string_view text);
/// Seconds from "1.3 us", "700 ns", "2 ms", "0.5 s".
Result<Rational> parse_latency(std::string_view text);

/// What one unit is worth, in bytes per second or seconds: "GB/s" is 1000000000.
Result<Rational> bandwidth_unit(std::string_view unit);
Result<Rational> latency_unit(std::string_view unit);

/// In the unit that needs fewest leading digits; reads back as the same value.
std::string show_bandwidth(const Rational& bytes_per_second);
std::string show_latency(const Rational& seconds);

}  // namespace tutti
