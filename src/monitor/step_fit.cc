#include "monitor/step_fit.hpp"

namespace tutti::monitor {

// With weights w = bytes and values t/w, the squared error of a segment is sum(t*t/w) - sum(t)^2/sum(w). The first sum
// is the same for every split: the best one has the largest second.
std::size_t fit_step(std::span<const Piece> pieces, bool rises) {
  Piece all;
  for (const Piece& piece : pieces) {
    all.bytes += piece.bytes;
    all.seconds += piece.seconds;
  }
  if (all.bytes <= 0) return 0;
  double best = all.seconds * all.seconds / all.bytes;
  std::size_t at = 0;
  Piece before;
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    before.bytes += pieces[i].bytes;
    before.seconds += pieces[i].seconds;
    const Piece after{all.bytes - before.bytes, all.seconds - before.seconds};
    if (before.bytes <= 0 || after.bytes <= 0) continue;
    const bool rose = after.seconds * before.bytes > before.seconds * after.bytes;
    if (rose != rises) continue;
    const double gain = before.seconds * before.seconds / before.bytes + after.seconds * after.seconds / after.bytes;
    if (gain <= best) continue;
    best = gain;
    at = i + 1;
  }
  return at;
}

}  // namespace tutti::monitor
