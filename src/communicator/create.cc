// How communicators come to be: ranks as threads, by a unique id, or as the launcher says.
#include "communicator/create.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/wire.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/unique_id.hpp"
#include "communicator/impl.hpp"
#include "control/control.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

/// What a rank brings to the meeting point.
struct Introduction {
  SegmentName segment;
  std::string settings;  // "NAME=VALUE" a line: those that must be the same on all ranks
  std::string endpoint;
  std::vector<std::byte> control;

  Blob encode() const {
    WireWriter writer;
    writer.put_struct(segment);
    writer.put_text(settings);
    writer.put_text(endpoint);
    writer.put_bytes(control);
    return writer.take();
  }

  static Result<Introduction> decode(const Blob& blob) {
    WireReader reader(blob);
    Introduction introduction;
    introduction.segment = reader.get_struct<SegmentName>();
    introduction.settings = reader.get_text();
    introduction.endpoint = reader.get_text();
    introduction.control = reader.get_bytes();
    if (!reader.complete()) return fail(ErrorCode::refused, "a rank's introduction is damaged");
    return introduction;
  }
};

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

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 31);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

/// What must be the same on all ranks, because programs are chosen by it.
AgreedSettings agreed_settings(const Options& options) {
  return {{"TUTTI_SELECT", options.select}, {"TUTTI_REPRODUCIBLE", options.reproducible ? "1" : "0"}};
}

/// All ranks as their introductions tell.
struct Everyone {
  Identity identity;
  std::vector<ControlPeer> peers;
  std::vector<Endpoint> endpoints;

  static Result<Everyone> decode(const std::vector<Blob>& introductions, int rank) {
    Everyone all;
    all.identity.rank = rank;
    std::string first;
    for (std::size_t index = 0; index < introductions.size(); ++index) {
      Result<Introduction> introduction = Introduction::decode(introductions[index]);
      if (!introduction) return tl::unexpected(introduction.error());
      if (index == 0) first = introduction->settings;
      if (Status same = compare_settings(introduction->settings, index, first); !same)
        return tl::unexpected(same.error());
      Result<ControlPeer> peer = ControlPeer::decode(introduction->control);
      if (!peer) return tl::unexpected(peer.error());
      Result<Endpoint> endpoint = Endpoint::parse(introduction->endpoint);
      if (!endpoint) return tl::unexpected(endpoint.error());
      // Ranks that may not share memory count as hosts of their own.
      const std::uint64_t host = settings().shm ? hash_text(peer->host) : mix(hash_text(peer->host), index + 1);
      all.identity.members.push_back({static_cast<int>(index), host, introduction->segment});
      all.identity.id = mix(all.identity.id, introduction->segment.nonce);
      all.peers.push_back(std::move(*peer));
      all.endpoints.push_back(std::move(*endpoint));
    }
    return all;
  }

  std::vector<Neighbour> neighbours() const {
    std::vector<Neighbour> all;
    for (std::size_t index = 0; index < endpoints.size(); ++index)
      all.push_back({endpoints[index], identity.members[index].host});
    return all;
  }

  bool on_one_host() const {
    const auto& members = identity.members;
    return std::all_of(members.begin(), members.end(),
                       [&](const Member& member) { return member.host == members.front().host; });
  }
};

/// Agrees on whether ranks of a host can read each other's memory, and that all select by the same rules, in a first
/// operation, which also proves that all are here.
Status agree(std::shared_ptr<CommunicatorImpl>& impl, Deadline deadline) {
  const std::uint64_t rules = mix(hash_text(to_string(impl->rules())), impl->planned().digest);
  const std::uint64_t mine[3] = {impl->can_pull() ? 1U : 0U, rules, ~rules};
  std::uint64_t least[3] = {};
  Call call;
  call.collective = Collective::all_reduce;
  call.send = mine;
  call.recv = least;
  call.count = 3;
  call.type = DataType::uint64;
  call.reduction = Operator::min;
  if (Status done = impl->run(call, deadline); !done) {
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

Result<std::shared_ptr<CommunicatorImpl>> join_job(JoinInfo info, const Options& options) {
  Entrant entrant(info);
  Result<Blob> introduction = entrant.introduce(info.size, agreed_settings(options));
  if (!introduction) return tl::unexpected(introduction.error());
  info.blob = std::move(*introduction);
  const Result<std::vector<Blob>> introductions = join(info);
  if (!introductions) return tl::unexpected(introductions.error());
  return entrant.enter(*introductions, info.rank, info.deadline, options, Seats{info.size, {}});
}

}  // namespace

Entrant::Entrant(const JoinInfo& info) : secret_(info.secret), job_(info.job) {}
Entrant::~Entrant() = default;

Result<Blob> Entrant::introduce(int size, const AgreedSettings& settings) {
  Result<std::unique_ptr<Control>> control = Control::start(secret_);
  if (!control) return tl::unexpected(control.error());
  TcpOptions tcp_options;
  tcp_options.job = job_;
  Result<std::shared_ptr<Tcp>> tcp = Tcp::start(secret_, tcp_options);
  if (!tcp) return tl::unexpected(tcp.error());
  Result<Segment> segment = Segment::create(size);
  if (!segment) return tl::unexpected(segment.error());
  control_ = std::move(*control);
  tcp_ = std::move(*tcp);
  segment_ = std::move(*segment);
  Introduction introduction;
  introduction.segment = segment_->name();
  introduction.settings = lines_of(settings);
  introduction.endpoint = tcp_->endpoint().to_string();
  introduction.control = control_->self().encode();
  return introduction.encode();
}

Result<std::shared_ptr<CommunicatorImpl>> Entrant::enter(const std::vector<Blob>& introductions, int rank,
                                                         Deadline deadline, const Options& options, Seats seats) {
  Result<Everyone> all = Everyone::decode(introductions, rank);
  if (!all) return tl::unexpected(all.error());
  if (all->on_one_host())
    tcp_.reset();
  else
    tcp_->introduce(all->neighbours());
  all->identity.seats = std::move(seats);
  if (Status joined = control_->join(std::move(all->peers), rank, deadline); !joined)
    return tl::unexpected(joined.error());
  const auto job =
      std::make_shared<Job>(std::move(control_), std::move(tcp_), std::move(all->endpoints), rank, secret_);
  auto impl = CommunicatorImpl::create(job, all->identity, std::move(*segment_), options);
  if (!impl) {
    report_failure(*job, all->identity, impl.error());
    return impl;
  }
  job->watch();
  if (Status agreed_on = agree(*impl, deadline); !agreed_on) return tl::unexpected(agreed_on.error());
  return impl;
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
  auto impl = join_job(std::move(*info), options);
  if (!impl) return tl::unexpected(impl.error());
  return Communicator(std::move(*impl));
}

Result<Communicator> Communicator::create_from_environment(const Options& options) {
  report_settings_once();
  const Result<LaunchInfo> launch = from_environment();
  if (!launch) return tl::unexpected(launch.error());
  const Deadline deadline = join_deadline(options);
  Result<JoinInfo> info = rendezvous(*launch, deadline);
  if (!info) return tl::unexpected(info.error());
  info->deadline = deadline;
  auto impl = join_job(std::move(*info), options);
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
  identity.seats.total = size;
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
