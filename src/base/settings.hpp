// Every environment variable tutti reads, in one place: name, type, default, one line of help.
// Read once per process; a value that cannot be parsed is an error that names it, and the default is used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

/// What is logged, and where.
struct LogSettings {
  std::string log = "warn";
  std::string log_file;
};

/// How processes prove that they belong to the job.
struct SecuritySettings {
  std::string secret;  // TUTTI_SECRET, or the contents of TUTTI_SECRET_FILE
  std::string secret_file;
  bool insecure = false;
};

/// Which addresses and ports are used.
struct NetworkSettings {
  std::string interfaces;  // names or patterns, as NCCL_SOCKET_IFNAME
  std::string family;      // ipv4 | ipv6; empty: either
  std::string port_range;  // "first-last"; empty: any
};

/// How long others are waited for.
struct TimeoutSettings {
  double join_timeout = 60.0;      // seconds
  double operation_timeout = 0.0;  // seconds; 0: wait without limit
  double late_warning = 10.0;      // seconds until a rank that has not entered is named
  double heartbeat_timeout = 5.0;  // seconds of silence until a host counts as dead
};

/// How ranks of a host reach each other's memory.
struct HostMemorySettings {
  bool shm = true;                  // shared memory between ranks of a host
  bool cross_memory_attach = true;  // process_vm_readv between ranks of a host
  std::string host_id;              // overrides the host's identity: ranks of different ids do not share memory
};

/// The connections that carry data between hosts.
struct LaneSettings {
  std::string checksum = "sampled";  // which chunks are checked: off, sampled, all
  std::string lanes = "spread";      // over all lanes, or only the first that is up: backup
  double lane_hold = 5.0;            // seconds that a lane which flaps is left alone, at most
  std::string source_ports;          // "first-last" that lanes leave from, one for each port of ours; empty: any
  int tcp_chunk = 0;                 // bytes of a chunk over TCP, the same on all ranks; 0: by itself
  int tcp_lanes = 2;                 // connections per peer, and at least one for each of its ports
};

/// What is recorded, and which plugin is told of it.
struct MonitorSettings {
  bool monitor = true;             // record what happens, for `tutti status` and its like
  std::string monitor_dir;         // folder of recordings; empty: /dev/shm/tutti-UID
  int monitor_window = 8;          // completions of a lane over which its throughput is taken
  int monitor_steps = 16;          // of so many operations, the steps of one are traced; 0: none
  int monitor_communicators = 32;  // for which a recording has room
  int monitor_operations = 256;    // remembered of each communicator
  int monitor_lanes = 64;          // for which a recording has room
  std::string profiler_plugin;     // a plugin made for NCCL's profiler interface, told of operations; empty: none
  std::string nvml;                // library that tells of GPUs; empty: the driver's, if there is one; none: no GPUs
};

/// What a waiting thread does before it sleeps.
struct WaitSettings {
  int spin_us = 20;    // how long a wait spins where cores suffice
  int yield_us = 200;  // how long it then yields before it sleeps
};

/// Which programs run, and with which reduction kernels.
struct ProgramSettings {
  std::string isa;            // scalar | avx2 | avx512; empty: the best there is
  bool reproducible = false;  // only programs that reduce in rank order
  std::string select;         // override of program selection
  std::string plans;          // folder of programs to run where they fit
  std::string tune_file;      // where `tutti tune` keeps its table
};

struct Settings : LogSettings,
                  SecuritySettings,
                  NetworkSettings,
                  TimeoutSettings,
                  HostMemorySettings,
                  LaneSettings,
                  MonitorSettings,
                  WaitSettings,
                  ProgramSettings {};

/// The process's settings, from its environment at first use.
const Settings& settings();

struct SettingInfo {
  std::string name;      // TUTTI_LOG
  std::string type;      // text, number, flag
  std::string fallback;  // the default, as text
  std::string current;
  std::string help;
};
/// For `tutti env`, in alphabetical order.
std::vector<SettingInfo> describe_settings();

/// The value given where it could not be read, one sentence each; empty when all is well.
std::vector<std::string> setting_errors();

/// What works but should not stay so, one sentence each: a secret that can be guessed or read by others.
std::vector<std::string> setting_warnings();

/// Refused if TUTTI_SECRET_FILE names a file that gives no secret; the message says why.
Status secret_status();

/// Variables that start with TUTTI_ and mean nothing, with the nearest known name where there is one.
std::vector<std::string> unknown_settings();

}  // namespace tutti
