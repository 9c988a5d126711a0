// Who has joined, and whether they all mean the same job. No sockets, no clock: a plain value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/wire.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// "rank 3 of 8", "ranks 3, 7 of 8", "ranks 0-2, 5 of 8". `ranks` ascending.
std::string name_ranks(const std::vector<int>& ranks, int size);
/// "60 s", "0.3 s"
std::string name_seconds(double seconds);

class Attendance {
 public:
  enum class Admission {
    joined,
    duplicate,  // that rank is here already: the newcomer is turned away, the others are not concerned
    mismatch,   // ranks disagree about the job: it cannot start
  };
  struct Answer {
    Admission admission = Admission::joined;
    std::string why;  // names both sides
  };

  /// `from` is where the rank connects from, for messages.
  Answer add(JoinRequest request, const std::string& from);

  bool complete() const { return joined_ > 0 && joined_ == static_cast<int>(members_.size()); }
  int joined() const { return joined_; }
  /// As the first to join says; 0 before.
  int size() const { return static_cast<int>(members_.size()); }
  std::vector<int> missing() const;
  /// In rank order. Only when complete.
  std::vector<Blob> blobs() const;

 private:
  struct Member {
    std::string from;
    Blob blob;
  };

  std::string disagreement(const JoinRequest& request) const;

  std::vector<std::optional<Member>> members_;
  int joined_ = 0;
  int first_rank_ = -1;  // whom the others are compared with
  AgreedSettings settings_;
};

}  // namespace tutti
