// The fields of telemetry by name, once for reading and for writing: fields_of(visitor, TYPE{}) calls visitor(NAME,
// POINTER TO MEMBER) for each. Names are part of the format: fields may be added, none changes its meaning.
#pragma once

#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

template <typename Visitor>
void fields_of(const Visitor& visit, const XidFacts&) {
  visit("code", &XidFacts::code);
  visit("at", &XidFacts::at);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const GpuFacts&) {
  visit("index", &GpuFacts::index);
  visit("name", &GpuFacts::name);
  visit("lost", &GpuFacts::lost);
  visit("throttled", &GpuFacts::throttled);
  visit("throttle", &GpuFacts::throttle);
  visit("clock", &GpuFacts::clock);
  visit("max_clock", &GpuFacts::max_clock);
  visit("temperature", &GpuFacts::temperature);
  visit("xids", &GpuFacts::xids);
  visit("uncorrected", &GpuFacts::uncorrected);
  visit("rows_pending", &GpuFacts::rows_pending);
  visit("rows_failed", &GpuFacts::rows_failed);
  visit("link_errors", &GpuFacts::link_errors);
  visit("links_down", &GpuFacts::links_down);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const ProcessFacts&) {
  visit("rank", &ProcessFacts::rank);
  visit("pid", &ProcessFacts::pid);
  visit("host", &ProcessFacts::host);
  visit("state", &ProcessFacts::state);
  visit("since", &ProcessFacts::since);
  visit("starved", &ProcessFacts::starved);
  visit("how", &ProcessFacts::how);
  visit("told_to_end", &ProcessFacts::told_to_end);
  visit("gpus", &ProcessFacts::gpus);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const CallFacts&) {
  visit("number", &CallFacts::number);
  visit("collective", &CallFacts::collective);
  visit("type", &CallFacts::type);
  visit("operator", &CallFacts::op);
  visit("sends", &CallFacts::sends);
  visit("bytes", &CallFacts::bytes);
  visit("root", &CallFacts::root);
  visit("signature", &CallFacts::signature);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const OperationFacts&) {
  visit("call", &OperationFacts::call);
  visit("failed", &OperationFacts::failed);
  visit("entered", &OperationFacts::entered);
  visit("moved", &OperationFacts::moved);
  visit("awaited", &OperationFacts::awaited);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const MemberFacts&) {
  visit("rank", &MemberFacts::rank);
  visit("process", &MemberFacts::process);
  visit("state", &MemberFacts::state);
  visit("accused", &MemberFacts::accused);
  visit("last_done", &MemberFacts::last_done);
  visit("done_at", &MemberFacts::done_at);
  visit("operations", &MemberFacts::operations);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const FlowFacts&) {
  visit("source", &FlowFacts::source);
  visit("destination", &FlowFacts::destination);
  visit("path", &FlowFacts::path);
  visit("operation", &FlowFacts::operation);
  visit("posted", &FlowFacts::posted);
  visit("sent", &FlowFacts::sent);
  visit("done", &FlowFacts::done);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const WaitFacts&) {
  visit("waiter", &WaitFacts::waiter);
  visit("awaited", &WaitFacts::awaited);
  visit("seconds", &WaitFacts::seconds);
  visit("share", &WaitFacts::share);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const RhythmFacts&) {
  visit("operations", &RhythmFacts::operations);
  visit("length", &RhythmFacts::length);
  visit("period", &RhythmFacts::period);
  visit("spread", &RhythmFacts::spread);
  visit("longest_gap", &RhythmFacts::longest_gap);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const StayFacts&) {
  visit("rank", &StayFacts::rank);
  visit("microseconds", &StayFacts::microseconds);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const CallSiteFacts&) {
  visit("signature", &CallSiteFacts::signature);
  visit("usual", &CallSiteFacts::usual);
  visit("spread", &CallSiteFacts::spread);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const TrafficFacts&) {
  visit("collective", &TrafficFacts::collective);
  visit("calls", &TrafficFacts::calls);
  visit("bytes", &TrafficFacts::bytes);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const CommunicatorFacts&) {
  visit("id", &CommunicatorFacts::id);
  visit("name", &CommunicatorFacts::name);
  visit("size", &CommunicatorFacts::size);
  visit("members", &CommunicatorFacts::members);
  visit("flows", &CommunicatorFacts::flows);
  visit("exchanges", &CommunicatorFacts::exchanges);
  visit("learning", &CommunicatorFacts::learning);
  visit("waits", &CommunicatorFacts::waits);
  visit("rhythm", &CommunicatorFacts::rhythm);
  visit("sites", &CommunicatorFacts::sites);
  visit("traffic", &CommunicatorFacts::traffic);
  visit("stretch_length", &CommunicatorFacts::stretch_length);
  visit("first_stretch", &CommunicatorFacts::first_stretch);
  visit("stretches", &CommunicatorFacts::stretches);
  visit("stays", &CommunicatorFacts::stays);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const WaitingRankFacts&) {
  visit("rank", &WaitingRankFacts::rank);
  visit("process", &WaitingRankFacts::process);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const GatheringFacts&) {
  visit("key", &GatheringFacts::key);
  visit("name", &GatheringFacts::name);
  visit("size", &GatheringFacts::size);
  visit("began", &GatheringFacts::began);
  visit("joined", &GatheringFacts::joined);
  visit("whole", &GatheringFacts::whole);
  visit("waiting", &GatheringFacts::waiting);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const PathFacts&) {
  visit("path", &PathFacts::path);
  visit("best_rate", &PathFacts::best_rate);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const DelayFacts&) {
  visit("source", &DelayFacts::source);
  visit("destination", &DelayFacts::destination);
  visit("path", &DelayFacts::path);
  visit("local", &DelayFacts::local);
  visit("relative", &DelayFacts::relative);
  visit("error", &DelayFacts::error);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const LaneFacts&) {
  visit("process", &LaneFacts::process);
  visit("peer", &LaneFacts::peer);
  visit("peer_name", &LaneFacts::peer_name);
  visit("name", &LaneFacts::name);
  visit("path", &LaneFacts::path);
  visit("state", &LaneFacts::state);
  visit("since", &LaneFacts::since);
  visit("losses", &LaneFacts::losses);
  visit("reason", &LaneFacts::reason);
  visit("rate", &LaneFacts::rate);
  visit("usual", &LaneFacts::usual);
  visit("dropped", &LaneFacts::dropped);
  visit("congested", &LaneFacts::congested);
  visit("corrupted", &LaneFacts::corrupted);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const CorruptionFacts&) {
  visit("source", &CorruptionFacts::source);
  visit("destination", &CorruptionFacts::destination);
  visit("path", &CorruptionFacts::path);
  visit("chunks", &CorruptionFacts::chunks);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const PastFault&) {
  visit("class", &PastFault::fault);
  visit("host", &PastFault::host);
  visit("rank", &PastFault::rank);
  visit("operation", &PastFault::place);
  visit("command", &PastFault::command);
}

template <typename Visitor>
void fields_of(const Visitor& visit, const Telemetry&) {
  visit("job", &Telemetry::job);
  visit("command", &Telemetry::command);
  visit("now", &Telemetry::now);
  visit("realtime_offset", &Telemetry::realtime_offset);
  visit("window", &Telemetry::window);
  visit("processes", &Telemetry::processes);
  visit("communicators", &Telemetry::communicators);
  visit("gatherings", &Telemetry::gatherings);
  visit("paths", &Telemetry::paths);
  visit("delays", &Telemetry::delays);
  visit("lanes", &Telemetry::lanes);
  visit("corruptions", &Telemetry::corruptions);
  visit("past", &Telemetry::past);
}

}  // namespace tutti::diagnosis
