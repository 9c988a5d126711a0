// Rails that are real: two hosts as network namespaces, joined by two pairs of virtual ports whose rate is shaped, a
// rank on each. Needs root. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/demo/network_namespace.hpp"
#include "cli/demo/rails.hpp"
#include "cli/support/spawn.hpp"

namespace tutti::cli {

struct NamespaceRailsOptions {
  double seconds = 6;    // of traffic, about
  bool fine = false;     // small packets through a small bucket, so that its rate is kept at every millisecond
  bool one_way = false;  // broadcasts from the first host, which move no more than the rails allow
  std::vector<std::pair<std::string, std::string>> environment = {};  // of the ranks
};

class NamespaceRails final : public Rails {
 public:
  NamespaceRails(NamespaceRailsOptions options, Interrupts& interrupts)
      : options_(std::move(options)), interrupts_(interrupts) {}
  ~NamespaceRails() override;

  Status open();

  std::string title() const override;
  std::string operations() const override { return options_.one_way ? "broadcasts" : "all-reduces"; }
  double now() const override;
  Status flow_until(double seconds) override;
  std::array<std::uint64_t, kRails> sent() override;
  Status set_rail(int rail, bool up) override {
    return hosts_[1].inside([&] { return set_link(rail, up); });
  }
  /// What the first host sends on a rail has so much of its rate.
  Status set_share(int rail, double share);
  /// What now() is on the monotonic clock.
  double start() const { return start_; }
  /// Of the first host.
  int pid() const { return ranks_[0].pid; }
  Status finish() override;

 private:
  Status plug_in(int rail);
  Status set_up(int host, int rail);
  static Status set_link(int rail, bool up);
  Status shape(const char* verb, int rail, double share) const;
  Status await_carriers();
  Status start_ranks();
  Status read_ends(int milliseconds);
  void take_lines();
  bool reap(RankProcess& rank, int flags);
  Error why() const;

  NamespaceRailsOptions options_;
  Interrupts& interrupts_;
  std::vector<NetworkNamespace> hosts_;
  std::vector<RankProcess> ranks_;
  std::string unread_;
  std::optional<double> first_end_;
  double start_ = 0;
  bool shaped_ = true;
};

/// Fails where this machine does not allow that.
Result<std::unique_ptr<NamespaceRails>> open_rails(const NamespaceRailsOptions& options, Interrupts& interrupts);

}  // namespace tutti::cli
