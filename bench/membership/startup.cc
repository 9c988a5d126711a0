// Messages of a start, by their formats: the requests and the answer are made by the encoders of bootstrap/wire.hpp,
// the store's book of who has come is the real one; the sockets between them are not there. Rank 0 serves the store.
#include "startup.hpp"

#include <string>

#include "bootstrap/attendance.hpp"
#include "bootstrap/wire.hpp"
#include "counts.hpp"

namespace tutti::membership {

bool measure_startup(int ranks) {
  constexpr std::size_t kDescriptor = 300;  // bytes: a rank's segment, host, settings, addresses
  Figures sent(ranks), received(ranks), bytes(ranks), table(ranks);
  Attendance attendance;
  JoinRequest request;
  request.size = ranks;
  request.patience = request.patience_was = 60;
  request.settings = {{"version", "0.1.0"}, {"protocol", "1"}};
  request.blob = Blob(kDescriptor);
  for (int rank = 0; rank < ranks; ++rank) {
    request.rank = rank;
    const Blob frame = encode_request(request);
    ++sent[rank];
    ++received[0];
    bytes[rank] += frame.size();
    bytes[0] += frame.size();
    const auto decoded = decode_request(std::span(frame).subspan(kLengthBytes));
    if (!decoded || attendance.add(*decoded, "10.0.0.1:1").admission != Attendance::Admission::joined) return false;
  }
  if (!attendance.complete()) return false;
  const std::size_t answer = encode_gathered({kNewcomer, attendance.blobs()}).size();
  for (int rank = 0; rank < ranks; ++rank) {
    ++sent[0];
    ++received[rank];
    table[rank] += answer;
    table[0] += rank == 0 ? 0 : answer;
  }
  print_figure("start", ranks, "messages sent", sent);
  print_figure("start", ranks, "messages received", received);
  print_figure("start", ranks, "control bytes", bytes);
  print_figure("start", ranks, "table bytes sent", table);
  Figures others(ranks - 1);
  for (int rank = 1; rank < ranks; ++rank) others[rank - 1] = sent[rank] + received[rank];
  print_figure("start, ranks without the store", ranks, "messages sent", others);
  return true;
}

}  // namespace tutti::membership
