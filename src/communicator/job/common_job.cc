#include "communicator/job/common_job.hpp"

#include <algorithm>
#include <set>

namespace tutti {
namespace {

/// The process that `rank` is in the job: the first it offers that no rank before it has taken.
const JobOffer* offer_of(const std::vector<JobOffer>& offers, const JobOffer& wanted, const std::set<int>& taken) {
  for (const JobOffer& each : offers)
    if (each.job == wanted.job && each.processes == wanted.processes && !taken.contains(each.process)) return &each;
  return nullptr;
}

std::optional<CommonJob> fit_into(const JobOffer& wanted, std::span<const std::vector<JobOffer>> offers) {
  CommonJob common{wanted.job, {}};
  std::set<int> taken;
  std::set<int> absent;
  for (const std::vector<JobOffer>& each : offers) {
    const JobOffer* const offer = offer_of(each, wanted, taken);
    if (offer == nullptr) return std::nullopt;
    taken.insert(offer->process);
    absent.insert(offer->absent.begin(), offer->absent.end());
    common.processes.push_back(offer->process);
  }
  const auto is_absent = [&](int process) { return absent.contains(process); };
  if (std::any_of(taken.begin(), taken.end(), is_absent)) return std::nullopt;
  return common;
}

}  // namespace

void JobOffer::encode(WireWriter& out) const {
  out.put(job);
  out.put(process);
  out.put(processes);
  out.put(static_cast<std::uint32_t>(absent.size()));
  for (const std::int32_t each : absent) out.put(each);
}

JobOffer JobOffer::decode(WireReader& in) {
  JobOffer offer;
  offer.job = in.get<std::uint64_t>();
  offer.process = in.get<std::int32_t>();
  offer.processes = in.get<std::int32_t>();
  const auto absent = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < absent && in.ok(); ++i) offer.absent.push_back(in.get<std::int32_t>());
  return offer;
}

std::optional<CommonJob> find_common_job(std::span<const std::vector<JobOffer>> offers) {
  if (offers.empty()) return std::nullopt;
  std::vector<JobOffer> candidates = offers.front();
  std::sort(candidates.begin(), candidates.end(), [](const JobOffer& one, const JobOffer& other) {
    return one.processes != other.processes ? one.processes > other.processes : one.job < other.job;
  });
  for (const JobOffer& each : candidates)
    if (auto common = fit_into(each, offers)) return common;
  return std::nullopt;
}

}  // namespace tutti
