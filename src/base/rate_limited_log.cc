#include "base/rate_limited_log.hpp"

#include "base/log.hpp"

namespace tutti {

void RateLimitedLog::warn(const std::string& line, double now) {
  if (now >= next_) return log(line, now);
  ++kept_;
  newest_ = line;
}

double RateLimitedLog::catch_up(double now) {
  if (kept_ == 0) return kNothingKept;
  if (now < next_) return next_;
  --kept_;  // the newest is logged itself
  log(newest_, now);
  return kNothingKept;
}

void RateLimitedLog::log(const std::string& line, double now) {
  if (kept_ == 0)
    log::warn("{}", line);
  else
    log::warn("{} (and {} more, not shown)", line, kept_);
  kept_ = 0;
  next_ = now + interval_;
}

}  // namespace tutti
