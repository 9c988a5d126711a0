// A straight line through the times of messages: a pair of ranks as latency and bandwidth. Pure.
#pragma once

#include <span>

#include "measure/measurements.hpp"

namespace tutti {

/// Time of a message = latency + bytes / rate.
struct LineFit {
  double latency = 0;     // seconds; of the smallest message
  double rate = 0;        // bytes per second; the slope of messages that are mostly bandwidth
  double rate_error = 0;  // standard error of the rate, as a share of it; 0 where two sizes leave none
  double error = 0;       // of the whole line over all sizes: root of the mean square of relative errors
};

/// Least squares with relative weights. Latency is what the smallest message takes, not where the line of large ones
/// meets the axis: token buckets and rendezvous move that by more than a small message takes. Needs two sizes; with
/// fewer the rate is that of the one.
LineFit fit_line(std::span<const SizeTime> times);

/// The middle value, of two the lesser: what disturbs a measurement only ever adds to it. 0 for none.
double median(std::vector<double> values);

}  // namespace tutti
