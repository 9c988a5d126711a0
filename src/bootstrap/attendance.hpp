// Who has joined, and whether they all mean the same job. No sockets, no clock: a plain value.
//
// Ranks know their numbers. Where the job admits newcomers, they wait beside the ranks, are free to leave, bring their
// blobs once they know the size, and get the numbers after the ranks' when all is settled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
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
  struct Reply {
    Admission admission = Admission::joined;
    std::string why;  // names both sides
  };

  /// `from` is where the rank connects from, for messages.
  Reply add(JoinRequest request, const std::string& from);

  /// A newcomer, which the caller names by `key`; later, its blob.
  void add_newcomer(std::uint64_t key);
  void introduce(std::uint64_t key, Blob blob);
  void remove_newcomer(std::uint64_t key);

  bool complete() const { return all_ranks() && introduced_.size() >= places_; }
  /// When time is up: all ranks are here, and as many newcomers as they are content with.
  bool suffices() const { return all_ranks() && places_ > 0 && introduced_.size() >= at_least_; }
  int joined() const { return joined_; }
  int newcomers() const { return static_cast<int>(newcomers_.size()); }
  /// With all newcomers there is a place for.
  int size() const { return ranks() + static_cast<int>(places_); }
  /// Ranks that know their number, as the first to join says; 0 before.
  int ranks() const { return static_cast<int>(members_.size()); }
  std::vector<int> missing() const;
  /// "rank 3 of 8 has", "ranks 2, 3 of 8 and 1 of 2 newcomers have": those who are not here.
  std::string absent() const;
  /// The newcomers for whom there is a place, in the order of their numbers, which begin at ranks().
  std::vector<std::uint64_t> admitted() const;
  /// In rank order, then of those admitted. Only when complete, or sufficient.
  std::vector<Blob> blobs() const;

 private:
  struct JoinedRank {
    std::string from;
    Blob blob;
  };

  struct Introduced {
    std::uint64_t key;
    Blob blob;
  };

  bool all_ranks() const { return joined_ > 0 && joined_ == ranks(); }
  std::string disagreement(const JoinRequest& request) const;

  std::vector<std::optional<JoinedRank>> members_;
  std::set<std::uint64_t> newcomers_;
  std::vector<Introduced> introduced_;
  std::size_t places_ = 0;  // for newcomers
  std::size_t at_least_ = 0;
  int joined_ = 0;
  int first_rank_ = -1;  // whom the others are compared with
  AgreedSettings settings_;
};

}  // namespace tutti
