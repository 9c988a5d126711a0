// An agent that knows the token says anything at all: a greeting, then frames. What the collector takes of it is merged
// with what another host tells, and judged. The first byte chooses in what pieces the bytes come.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "agent/report/frames.hpp"
#include "collector/known_hosts.hpp"
#include "diagnosis/diagnose.hpp"
#include "diagnosis/telemetry/telemetry_check.hpp"

namespace {

using namespace tutti;
using agent::FrameKind;

constexpr double kNow = 1000;
constexpr std::size_t kMostBytes = 1 << 16;
// Of job 7, as the fuzzed agent may tell of it, too.
constexpr const char* kOtherHost =
    R"({"telemetry": 1, "job": "0000000000000007", "now": 5, "processes": [{"rank": 0, "pid": 1, "host": "a"},)"
    R"( {"rank": 1, "state": "elsewhere"}], "communicators": [{"id": "0000000000000007", "size": 2,)"
    R"( "members": [{"rank": 0, "process": 0}], "stretch_length": 8, "stretches": [5, 5, 5], "stays": [{"rank": 0,)"
    R"( "microseconds": [1, 1, 1]}]}], "lanes": [{"process": 0, "peer": 1, "state": "down"}]})";

const collector::KnownHosts::Key kFuzzed{"fuzzed", 1}, kOther{"other", 1};

void judge(collector::KnownHosts& hosts) {
  hosts.merged(kNow);  // new jobs are told of a while after
  for (const diagnosis::Telemetry& job : hosts.merged(kNow + collector::KnownHosts::kJoin)) {
    if (!diagnosis::check_telemetry(job)) std::abort();
    diagnosis::diagnose(job);
  }
}

void take(collector::KnownHosts& hosts, const agent::Frame& frame) {
  if (frame.kind == FrameKind::telemetry) {
    if (hosts.take_telemetry(kFuzzed, frame.payload, kNow)) judge(hosts);
  } else if (frame.kind == FrameKind::look) {
    if (const auto look = agent::decode_look(frame.payload))
      if (hosts.take_look(kFuzzed, *look, kNow, kNow)) judge(hosts);
  } else if (frame.kind == FrameKind::pace) {
    (void)agent::decode_pace(frame.payload);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] == 0 ? size : data[0];
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (const auto hello = agent::decode_hello(bytes))
    if (!agent::decode_hello(agent::encode(*hello))) std::abort();
  collector::KnownHosts hosts;
  agent::LookMessage look;
  look.looked_at = 5;
  look.jobs = {7};
  if (!hosts.take_telemetry(kOther, kOtherHost, kNow) || !hosts.take_look(kOther, look, kNow, kNow)) std::abort();
  look.jobs = {7, 8};
  if (!hosts.take_look(kFuzzed, look, kNow, kNow)) std::abort();
  agent::ReportReader reader(kMostBytes);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.add(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    while (true) {
      const auto frame = reader.next();
      if (!frame) return 0;
      if (!*frame) break;
      take(hosts, **frame);
    }
  }
  return 0;
}
