// How communicators come to be: ranks as threads, by a unique id, or as the launcher says.
#include "communicator/create.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/thread.hpp"
#include "base/wire.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/unique_id.hpp"
#include "communicator/impl.hpp"
#include "control/control.hpp"
#include "control/process_watch.hpp"
#include "monitor/recorder.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {

/// What a rank brings to the meeting point.
struct RankDescriptor {
  SegmentName segment;
  std::string settings;  // "NAME=VALUE" a line: those that must be the same on all ranks
  std::string host;
  std::vector<JobOffer> offers;
  std::string endpoint;  // how to reach it, by TCP,
  Blob control;          // and by the control plane; both empty: not yet needed

  Blob encode() const {
    WireWriter writer;
    writer.put_struct(segment);
    writer.put_text(settings);
    writer.put_text(host);
    writer.put(static_cast<std::uint32_t>(offers.size()));
    for (const JobOffer& offer : offers) offer.encode(writer);
    writer.put_text(endpoint);
    writer.put_bytes(control);
    return writer.take();
  }

  static Result<RankDescriptor> decode(const Blob& blob) {
    WireReader reader(blob);
    RankDescriptor descriptor;
    descriptor.segment = reader.get_struct<SegmentName>();
    descriptor.settings = reader.get_text();
    descriptor.host = reader.get_text();
    const auto offers = reader.get<std::uint32_t>();
    for (std::uint32_t i = 0; i < offers && reader.ok(); ++i) descriptor.offers.push_back(JobOffer::decode(reader));
    descriptor.endpoint = reader.get_text();
    descriptor.control = reader.get_bytes();
    if (!reader.complete()) return fail(ErrorCode::refused, "a rank's descriptor is damaged");
    return descriptor;
  }
};

namespace {

constexpr std::size_t kMostOffers = 128;

/// Settings by which ranks exchange data, and more that must be the same on all ranks.
std::string lines_of(const AgreedSettings& more) {
  std::string lines = fmt::format("TUTTI_SHM={}\nTUTTI_TCP_CHUNK={}\n", settings().shm ? 1 : 0, settings().tcp_chunk);
  for (const auto& [name, value] : more) lines += fmt::format("{}={}\n", name, value);
  return lines;
}

/// Compares the settings of a rank with those of rank 0.
Status compare_settings(const std::string& theirs, std::size_t rank, const std::string& first) {
  std::istringstream left(theirs);
  std::istringstream right(first);
  while (left || right) {
    std::string one;
    std::string other;
    std::getline(left, one);
    std::getline(right, other);
    if (one != other)
      return fail(ErrorCode::refused,
                  fmt::format("rank {} has {}, rank 0 has {}; it must be the same on all ranks", rank, one, other));
  }
  return {};
}

/// What must be the same on all ranks, because programs are chosen by it.
AgreedSettings agreed_settings(const Options& options) {
  return {{"TUTTI_SELECT", options.select}, {"TUTTI_REPRODUCIBLE", options.reproducible ? "1" : "0"}};
}

}  // namespace

/// All ranks as their descriptors tell.
struct GatheredRanks {
  Identity identity;
  std::optional<CommonJob> common;
  std::vector<ControlPeer> peers;  // these two are empty if not all have told
  std::vector<Endpoint> endpoints;

  static Result<GatheredRanks> decode(const std::vector<Blob>& blobs, int rank) {
    GatheredRanks all;
    std::vector<RankDescriptor> descriptors;
    for (const Blob& blob : blobs) {
      Result<RankDescriptor> descriptor = RankDescriptor::decode(blob);
      if (!descriptor) return tl::unexpected(descriptor.error());
      descriptors.push_back(std::move(*descriptor));
    }
    for (std::size_t index = 0; index < descriptors.size(); ++index)
      if (Status same = compare_settings(descriptors[index].settings, index, descriptors[0].settings); !same)
        return tl::unexpected(same.error());
    all.find_common_job(descriptors);
    all.identify(descriptors, rank);
    if (Status read = all.read_addresses(descriptors); !read) return tl::unexpected(read.error());
    return all;
  }

  /// Returns whether the ranks have a job in common, or every rank has told how to reach it. Looks at no more of them
  /// than it must: each of many ranks does this with the descriptors of all.
  static Result<bool> suffices(const std::vector<Blob>& blobs) {
    bool can_connect = true;
    std::vector<std::vector<JobOffer>> offers;
    for (const Blob& blob : blobs) {
      Result<RankDescriptor> descriptor = RankDescriptor::decode(blob);
      if (!descriptor) return tl::unexpected(descriptor.error());
      can_connect = can_connect && !descriptor->control.empty();
      offers.push_back(std::move(descriptor->offers));
    }
    return can_connect || tutti::find_common_job(offers).has_value();
  }

  /// Whether every rank has told how to reach it.
  bool can_connect() const { return peers.size() == identity.members.size(); }

  std::vector<AddressBook::Process> processes() const {
    std::vector<AddressBook::Process> all;
    for (std::size_t index = 0; index < endpoints.size(); ++index)
      all.push_back({endpoints[index], std::to_string(identity.members[index].host)});
    return all;
  }

  bool on_one_host() const {
    const auto& members = identity.members;
    return std::all_of(members.begin(), members.end(),
                       [&](const Member& member) { return member.host == members.front().host; });
  }

 private:
  void find_common_job(const std::vector<RankDescriptor>& descriptors) {
    std::vector<std::vector<JobOffer>> offers;
    for (const RankDescriptor& each : descriptors) offers.push_back(each.offers);
    common = tutti::find_common_job(offers);
  }

  void identify(const std::vector<RankDescriptor>& descriptors, int rank) {
    identity.rank = rank;
    for (std::size_t index = 0; index < descriptors.size(); ++index) {
      const RankDescriptor& each = descriptors[index];
      // Ranks that may not share memory count as hosts of their own.
      const std::uint64_t host = settings().shm ? hash_text(each.host) : mix(hash_text(each.host), index + 1);
      const int process = common ? common->processes[index] : static_cast<int>(index);
      identity.members.push_back({process, host, each.segment});
      identity.id = mix(identity.id, each.segment.nonce);
    }
  }

  Status read_addresses(const std::vector<RankDescriptor>& descriptors) {
    for (const RankDescriptor& each : descriptors)
      if (each.control.empty()) return {};
    for (const RankDescriptor& each : descriptors) {
      Result<ControlPeer> peer = ControlPeer::decode(each.control);
      if (!peer) return tl::unexpected(peer.error());
      Result<Endpoint> endpoint = Endpoint::parse(each.endpoint);
      if (!endpoint) return tl::unexpected(endpoint.error());
      peers.push_back(std::move(*peer));
      endpoints.push_back(std::move(*endpoint));
    }
    return {};
  }
};

namespace {

/// Agrees on whether ranks of a host can read each other's memory, and that all select by the same rules, in a first
/// operation, which also proves that all are here.
Status agree(std::shared_ptr<CommunicatorImpl>& impl, Deadline deadline) {
  const std::uint64_t rules = impl->plans().digest();
  const std::uint64_t mine[3] = {impl->can_pull() ? 1U : 0U, rules, ~rules};
  std::uint64_t least[3] = {};
  Call call;
  call.collective = Collective::all_reduce;
  call.send = mine;
  call.recv = least;
  call.count = 3;
  call.type = DataType::uint64;
  call.reduction = Operator::min;
  if (Status done = impl->driver().run(call, deadline); !done) {
    done.error().operation = "create";  // the user has called no operation yet
    return done;
  }
  if (least[1] != ~least[2])
    return fail(ErrorCode::mismatch, fmt::format("rank {}: ranks select programs by different rules; compare "
                                                 "TUTTI_SELECT, the table of `tutti tune` and the "
                                                 "files of TUTTI_PLANS",
                                                 impl->rank()));
  impl->settle(least[0] != 0);
  if (mine[0] == 0 && impl->layout().local_size > 1)
    log::warn(
        "rank {}: peers' memory cannot be read (cross-memory attach is off or forbidden); data is copied through "
        "shared memory instead. `tutti doctor` says how to allow it",
        impl->rank());
  return {};
}

/// Records that a communicator is being made here, and which of its ranks have come, while it exists.
class RecordedGathering {
 public:
  explicit RecordedGathering(const JoinInfo& info)
      : recorder_(monitor::Recorder::of_process()),
        record_(recorder_.open_gathering(hash_text(info.job), info.rank, info.size)) {
    if (record_ != nullptr) record_->join(info.rank);
  }
  ~RecordedGathering() { recorder_.close_gathering(record_); }
  RecordedGathering(const RecordedGathering&) = delete;
  RecordedGathering& operator=(const RecordedGathering&) = delete;

  /// For JoinInfo::on_joined: the store in this process knows who has come.
  void on_joined(int rank) {
    if (record_ == nullptr) return;
    record_->join(rank);
    record_->serves.set(1);
  }

 private:
  monitor::Recorder& recorder_;
  monitor::GatheringRecord* record_;
};

Result<std::shared_ptr<CommunicatorImpl>> join_ranks(JoinInfo info, const Options& options) {
  info.interrupted = interruption_by(options.cancel);
  RecordedGathering gathering(info);
  info.on_joined = [&](int rank) { gathering.on_joined(rank); };
  JoiningProcess joining(info);
  joining.offer_jobs();
  Result<Blob> descriptor = joining.describe(info.size, agreed_settings(options));
  if (!descriptor) return tl::unexpected(descriptor.error());
  info.blob = std::move(*descriptor);
  info.again = [&](const std::vector<Blob>& descriptors) { return joining.describe_again(descriptors); };
  const Result<std::vector<Blob>> descriptors = join(info);
  if (!descriptors) return tl::unexpected(descriptors.error());
  return joining.enter(*descriptors, info.rank, info.deadline, options, RankSlots{info.size, {}});
}

}  // namespace

std::function<Status()> interruption_by(const std::stop_token& cancel) {
  if (!cancel.stop_possible()) return nullptr;
  return [cancel]() -> Status {
    if (!cancel.stop_requested()) return {};
    return fail(ErrorCode::aborted, "Options::cancel was requested to stop");
  };
}

JoiningProcess::JoiningProcess(const JoinInfo& info)
    : secret_(info.secret), job_(info.job), own_(std::make_unique<RankDescriptor>()) {}
JoiningProcess::~JoiningProcess() = default;

void JoiningProcess::offer_jobs() {
  for (const auto& job : Job::all()) {
    std::optional<JobOffer> offer = job->offer();
    // What is to be kept by a secret does not go over connections that were made without one.
    if (!offer || (job->secret().empty() && !secret_.empty())) continue;
    own_->offers.push_back(std::move(*offer));
    offered_.push_back(job);
  }
  // The largest are the most likely to have them all.
  std::stable_sort(own_->offers.begin(), own_->offers.end(),
                   [](const JobOffer& one, const JobOffer& other) { return one.processes > other.processes; });
  if (own_->offers.size() > kMostOffers) own_->offers.resize(kMostOffers);
}

Result<Blob> JoiningProcess::describe(int size, const AgreedSettings& settings) {
  Result<Segment> segment = Segment::create(size);
  if (!segment) return tl::unexpected(segment.error());
  segment_ = std::move(*segment);
  own_->segment = segment_->name();
  own_->settings = lines_of(settings);
  own_->host = host_identity();
  if (offered_.empty())
    if (Status opened = open_ports(); !opened) return tl::unexpected(opened.error());
  return own_->encode();
}

Result<std::optional<Blob>> JoiningProcess::describe_again(const std::vector<Blob>& descriptors) {
  const Result<bool> enough = GatheredRanks::suffices(descriptors);
  if (!enough) return tl::unexpected(enough.error());
  if (*enough) return std::nullopt;
  if (control_ == nullptr)
    if (Status opened = open_ports(); !opened) return tl::unexpected(opened.error());
  return own_->encode();
}

Status JoiningProcess::open_ports() {
  Result<std::unique_ptr<Control>> control = Control::start(secret_);
  if (!control) return tl::unexpected(control.error());
  TcpOptions tcp_options;
  tcp_options.job = job_;
  Result<std::shared_ptr<Tcp>> tcp = Tcp::start(secret_, tcp_options);
  if (!tcp) return tl::unexpected(tcp.error());
  control_ = std::move(*control);
  tcp_ = std::move(*tcp);
  own_->endpoint = tcp_->endpoint().to_string();
  own_->control = control_->self().encode();
  return {};
}

Result<std::shared_ptr<CommunicatorImpl>> JoiningProcess::enter(const std::vector<Blob>& descriptors, int rank,
                                                                Deadline deadline, const Options& options,
                                                                RankSlots slots) {
  Result<GatheredRanks> all = GatheredRanks::decode(descriptors, rank);
  if (!all) return tl::unexpected(all.error());
  Identity identity = all->identity;
  identity.slots = std::move(slots);
  const bool is_new = !all->common;
  const Result<std::shared_ptr<Job>> job = is_new ? start_job(std::move(*all), deadline) : find_job(*all->common, rank);
  if (!job) return tl::unexpected(job.error());
  auto impl = CommunicatorImpl::create(*job, identity, std::move(*segment_), options);
  if (!impl) {
    report_failure(**job, identity, impl.error());
    return impl;
  }
  if (is_new) (*job)->watch();
  const std::stop_callback cancelled(options.cancel, [&] {
    (*impl)->failure().break_with(fail(ErrorCode::aborted, fmt::format("rank {} cancelled the creation", rank)).value(),
                                  Notify::peers);
  });
  if (Status agreed_on = agree(*impl, deadline); !agreed_on) return tl::unexpected(agreed_on.error());
  return impl;
}

Result<std::shared_ptr<Job>> JoiningProcess::find_job(const CommonJob& common, int rank) const {
  for (const auto& job : offered_)
    if (job->id() == common.job && job->self() == common.processes[static_cast<std::size_t>(rank)]) return job;
  return fail(ErrorCode::internal, fmt::format("rank {} has not offered the job that all have in common", rank));
}

Result<std::shared_ptr<Job>> JoiningProcess::start_job(GatheredRanks all, Deadline deadline) {
  if (!all.can_connect()) return fail(ErrorCode::refused, "not all ranks have told how to reach them");
  if (all.on_one_host())
    tcp_.reset();
  else
    tcp_->set_processes(all.processes());
  const int rank = all.identity.rank;
  if (Status joined = control_->join(std::move(all.peers), rank, deadline, interrupted_); !joined)
    return tl::unexpected(joined.error());
  return std::make_shared<Job>(std::move(control_), std::move(tcp_), std::move(all.endpoints), rank, secret_);
}

void report_failure(Job& job, const Identity& identity, const Error& error) {
  Message message;
  message.kind = Message::Kind::broken;
  message.from = identity.rank;
  message.code = error.code;
  message.peer = identity.rank;
  message.text = fmt::format("rank {} could not join: {}", identity.rank, error.message);
  job.broadcast(identity.id, identity.processes(), message);
}

Deadline join_deadline(const Options& options) {
  return Deadline::in(options.join_timeout > 0 ? options.join_timeout : settings().join_timeout);
}

void report_settings_once() {
  static const bool reported = [] {
    for (const std::string& line : setting_errors()) log::error("{}", line);
    for (const std::string& line : setting_warnings()) log::warn("{}", line);
    for (const std::string& line : unknown_settings()) log::warn("{}", line);
    return true;
  }();
  (void)reported;
}

Result<Communicator> Communicator::create(const UniqueId& id, int rank, int size, const Options& options) {
  report_settings_once();
  if (size < 1 || rank < 0 || rank >= size)
    return fail(ErrorCode::invalid_argument, fmt::format("create: rank {} of {} cannot be", rank, size));
  Result<JoinInfo> info = join_info(id, rank, size);
  if (!info) return tl::unexpected(info.error());
  info->deadline = join_deadline(options);
  auto impl = join_ranks(std::move(*info), options);
  if (!impl) return tl::unexpected(impl.error());
  return Communicator(std::move(*impl));
}

// A thread for each: every one of them waits for the others.
Result<std::vector<Communicator>> Communicator::create(const UniqueId& id, std::span<const int> ranks, int size,
                                                       const Options& options) {
  if (ranks.empty()) return fail(ErrorCode::invalid_argument, "create: expected at least one rank, got none");
  std::stop_source failed;
  const std::stop_callback cancelled(options.cancel, [&] { failed.request_stop(); });
  Options own = options;
  own.cancel = failed.get_token();
  std::vector<std::optional<Communicator>> made(ranks.size());
  std::mutex mutex;
  Status first;
  const auto fail_with = [&](const Error& error) {
    const std::lock_guard lock(mutex);
    if (first) first = tl::unexpected(error);
    failed.request_stop();
  };
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    auto thread = start_thread("tutti-create", [&, index] {
      Result<Communicator> created = create(id, ranks[index], size, own);
      if (!created) return fail_with(created.error());
      made[index].emplace(std::move(*created));
    });
    if (!thread) {
      fail_with(thread.error());
      break;
    }
    threads.push_back(std::move(*thread));
  }
  for (std::thread& thread : threads) thread.join();
  if (!first) return tl::unexpected(first.error());
  std::vector<Communicator> all;
  for (auto& each : made) all.push_back(std::move(*each));
  return all;
}

Result<Communicator> Communicator::create_from_environment(const Options& options) {
  report_settings_once();
  const Result<LaunchInfo> launch = from_environment();
  if (!launch) return tl::unexpected(launch.error());
  const Deadline deadline = join_deadline(options);
  Result<JoinInfo> info = rendezvous(*launch, deadline);
  if (!info) return tl::unexpected(info.error());
  info->deadline = deadline;
  auto impl = join_ranks(std::move(*info), options);
  if (!impl) return tl::unexpected(impl.error());
  return Communicator(std::move(*impl));
}

Result<std::vector<Communicator>> Communicator::create_threads(int size, const Options& options) {
  report_settings_once();
  if (size < 1) return fail(ErrorCode::invalid_argument, fmt::format("create_threads: {} ranks cannot be", size));
  const auto job = std::make_shared<Job>();
  Identity identity;
  identity.settled = true;
  identity.pull = true;
  identity.slots.total = size;
  std::vector<Segment> segments;
  for (int rank = 0; rank < size; ++rank) {
    Result<Segment> segment = Segment::create(size);
    if (!segment) return tl::unexpected(segment.error());
    identity.members.push_back({0, 1, segment->name()});
    segments.push_back(std::move(*segment));
  }
  identity.id = segments[0].name().nonce;
  std::vector<Communicator> all;
  for (int rank = 0; rank < size; ++rank) {
    identity.rank = rank;
    auto impl = CommunicatorImpl::create(job, identity, std::move(segments[static_cast<std::size_t>(rank)]), options);
    if (!impl) return tl::unexpected(impl.error());
    all.push_back(Communicator(std::move(*impl)));
  }
  return all;
}

}  // namespace tutti
