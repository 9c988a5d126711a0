#include "base/settings.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <variant>

namespace tutti {
namespace {

constexpr std::size_t kLeastSecret = 16;  // characters; one of fewer can be guessed

using Field = std::variant<std::string Settings::*, bool Settings::*, int Settings::*, double Settings::*>;

struct SettingVariable {
  const char* name;
  Field field;
  const char* help;
  double least = 0;  // of numbers
  double most = 1e9;
};

const std::vector<SettingVariable>& entries() {
  static const std::vector<SettingVariable> all = {
      {"TUTTI_CHECKSUM", &Settings::checksum,
       "chunks over TCP that are checked when they have come: sampled (one in 64), all, off"},
      {"TUTTI_CMA", &Settings::cross_memory_attach, "read peers' ordinary memory with process_vm_readv"},
      {"TUTTI_FAMILY", &Settings::family, "address family: ipv4, ipv6; empty: either"},
      {"TUTTI_HEARTBEAT_TIMEOUT", &Settings::heartbeat_timeout, "seconds of silence after which a host counts as dead"},
      {"TUTTI_HOST_ID", &Settings::host_id, "the host's identity; ranks whose ids differ do not share memory"},
      {"TUTTI_INSECURE", &Settings::insecure, "accept a job without a secret beyond loopback"},
      {"TUTTI_INTERFACES", &Settings::interfaces, "interfaces to use: names or prefixes, ^ excludes, = is exact"},
      {"TUTTI_ISA", &Settings::isa, "reduction kernels: scalar, avx2, avx512; empty: the best there is"},
      {"TUTTI_JOIN_TIMEOUT", &Settings::join_timeout, "seconds to wait for all ranks to join"},
      {"TUTTI_LANES", &Settings::lanes,
       "spread: use all lanes to a peer; backup: the first that is up, others are spares"},
      {"TUTTI_LANE_HOLD", &Settings::lane_hold, "seconds that a lane which flaps is left alone, at most"},
      {"TUTTI_LATE_WARNING", &Settings::late_warning, "seconds until a rank that has not entered is named"},
      {"TUTTI_LOG", &Settings::log, "off, error, warn, info, debug"},
      {"TUTTI_LOG_FILE", &Settings::log_file, "where log lines go; empty: standard error"},
      {"TUTTI_MONITOR", &Settings::monitor, "record what happens, for `tutti status`, `top`, `trace` and `agent`"},
      {"TUTTI_MONITOR_COMMUNICATORS", &Settings::monitor_communicators, "communicators a recording has room for", 1,
       4096},
      {"TUTTI_MONITOR_DIR", &Settings::monitor_dir, "folder of recordings, on tmpfs; empty: /dev/shm/tutti-UID"},
      {"TUTTI_MONITOR_LANES", &Settings::monitor_lanes, "lanes a recording has room for", 1, 4096},
      {"TUTTI_MONITOR_OPERATIONS", &Settings::monitor_operations, "operations remembered of each communicator", 16,
       65536},
      {"TUTTI_MONITOR_STEPS", &Settings::monitor_steps, "the steps of one in so many operations are traced; 0: none"},
      {"TUTTI_MONITOR_WINDOW", &Settings::monitor_window, "completions over which a lane's throughput is taken", 1,
       128},
      {"TUTTI_NVML", &Settings::nvml,
       "library that tells of GPUs; empty: libnvidia-ml.so.1 if it is there; none: no GPUs"},
      {"TUTTI_PLANS", &Settings::plans, "folder of programs written by `tutti synth`, used where they fit"},
      {"TUTTI_PORT_RANGE", &Settings::port_range, "ports to listen on, first-last; empty: any"},
      {"TUTTI_PROFILER_PLUGIN", &Settings::profiler_plugin,
       "NCCL profiler plugin: path, library or NAME of libnccl-profiler-NAME.so; empty: NCCL_PROFILER_PLUGIN"},
      {"TUTTI_REPRODUCIBLE", &Settings::reproducible, "same bits whatever the size and layout: reduce in rank order"},
      {"TUTTI_SECRET", &Settings::secret, "the job's secret"},
      {"TUTTI_SECRET_FILE", &Settings::secret_file, "file that holds the job's secret"},
      {"TUTTI_SELECT", &Settings::select, "program selection, e.g. all_reduce:0-32K:oneshot;all_gather:*:ring"},
      {"TUTTI_SHM", &Settings::shm, "shared memory between ranks of a host"},
      {"TUTTI_SOURCE_PORTS", &Settings::source_ports,
       "first-last: a lane from each of these on every port, so that they take different paths"},
      {"TUTTI_SPIN_US", &Settings::spin_us, "microseconds a wait spins where cores suffice"},
      {"TUTTI_TCP_CHUNK", &Settings::tcp_chunk,
       "bytes of a chunk over TCP, from 4096, the same on all ranks; 0: by itself", 0, 1 << 20},
      {"TUTTI_TCP_LANES", &Settings::tcp_lanes, "TCP connections per peer; at least one for each of its ports"},
      {"TUTTI_TIMEOUT", &Settings::operation_timeout, "seconds an operation may take; 0: no limit"},
      {"TUTTI_TUNE_FILE", &Settings::tune_file, "table written by `tutti tune`"},
      {"TUTTI_YIELD_US", &Settings::yield_us, "microseconds a wait yields before it sleeps"},
  };
  return all;
}

bool parse(const std::string& text, std::string& value) {
  value = text;
  return true;
}

bool parse(const std::string& text, bool& value) {
  if (text == "1" || text == "true" || text == "on" || text == "yes") return value = true, true;
  if (text == "0" || text == "false" || text == "off" || text == "no") return value = false, true;
  return false;
}

template <typename Number, typename Convert>
bool parse_number(const std::string& text, Number& value, Convert convert) {
  char* end = nullptr;
  const auto parsed = convert(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(parsed >= 0)) return false;
  value = static_cast<Number>(parsed);
  return true;
}

bool parse(const std::string& text, int& value) {
  return parse_number(text, value, [](const char* from, char** end) { return std::strtol(from, end, 10); });
}

bool parse(const std::string& text, double& value) {
  return parse_number(text, value, [](const char* from, char** end) { return std::strtod(from, end); });
}

std::string to_text(const std::string& value) { return value; }
std::string to_text(bool value) { return value ? "1" : "0"; }
std::string to_text(int value) { return std::to_string(value); }
std::string to_text(double value) { return fmt::format("{:g}", value); }

struct Loaded {
  Settings settings;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
  std::string secret_error;  // why a file that was named gave no secret

  Loaded() {
    for (const SettingVariable& entry : entries()) {
      const char* text = std::getenv(entry.name);
      if (text == nullptr) continue;
      if (const std::string wrong = std::visit([&](auto field) { return read(entry, text, field); }, entry.field);
          !wrong.empty())
        errors.push_back(fmt::format("{}='{}' {}; the default is used", entry.name, text, wrong));
    }
    if (settings.secret.empty() && !settings.secret_file.empty()) read_secret_file();
    judge_secret();
  }

  /// What is wrong with the value; empty: nothing.
  template <typename T>
  std::string read(const SettingVariable& entry, const char* text, T Settings::*field) {
    T value{};
    if (!parse(text, value)) return "cannot be read";
    if constexpr (!std::is_same_v<T, std::string> && !std::is_same_v<T, bool>)
      if (value < entry.least || value > entry.most)
        return fmt::format("is not between {:g} and {:g}", entry.least, entry.most);
    settings.*field = value;
    return "";
  }

  void read_secret_file() {
    const std::string& path = settings.secret_file;
    const auto wrong = [&](const std::string& what) {
      secret_error = fmt::format("TUTTI_SECRET_FILE='{}' {}", path, what);
      errors.push_back(secret_error + "; the job is refused");
    };
    errno = 0;
    std::ifstream file(path);
    struct stat found {};
    if (!file || ::stat(path.c_str(), &found) != 0)
      return wrong(fmt::format("cannot be read: {}", std::strerror(errno)));
    if (!S_ISREG(found.st_mode) && !S_ISFIFO(found.st_mode)) return wrong("is not a file");
    std::getline(file, settings.secret);
    if (!settings.secret.empty() && settings.secret.back() == '\r') settings.secret.pop_back();
    if (settings.secret.empty()) return wrong("holds no secret: its first line is empty");
    if ((found.st_mode & 077) != 0)
      warnings.push_back(
          fmt::format("TUTTI_SECRET_FILE='{}' can be read or written by other users (mode {:o}); "
                      "chmod 600 it",
                      path, static_cast<unsigned>(found.st_mode & 0777)));
  }

  void judge_secret() {
    if (settings.secret.empty() || settings.secret.size() >= kLeastSecret) return;
    warnings.push_back(fmt::format(
        "the secret of {} has {} characters; fewer than {} can be guessed; "
        "make one with: openssl rand -hex 32",
        settings.secret_file.empty() ? "TUTTI_SECRET" : "TUTTI_SECRET_FILE", settings.secret.size(), kLeastSecret));
  }
};

const Loaded& loaded() {
  static const Loaded instance;
  return instance;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// Set by `tutti run` and the bootstrap for its ranks; not settings a person makes.
constexpr std::string_view kLaunchVariables[] = {"TUTTI_RANK",       "TUTTI_SIZE",       "TUTTI_ADDRESS",
                                                 "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE", "TUTTI_UNIQUE_ID",
                                                 "TUTTI_PORT"};

}  // namespace

const Settings& settings() { return loaded().settings; }

std::vector<std::string> setting_errors() { return loaded().errors; }

std::vector<std::string> setting_warnings() { return loaded().warnings; }

Status secret_status() {
  if (loaded().secret_error.empty()) return {};
  return fail(ErrorCode::refused, loaded().secret_error);
}

std::vector<SettingInfo> describe_settings() {
  static constexpr const char* kTypes[] = {"text", "flag", "number", "number"};
  const Settings defaults;
  std::vector<SettingInfo> all;
  for (const SettingVariable& entry : entries()) {
    const auto show = [&](const Settings& from) {
      return std::visit([&](auto field) { return to_text(from.*field); }, entry.field);
    };
    const bool hide = std::string_view(entry.name) == "TUTTI_SECRET" && !settings().secret.empty();
    all.push_back(
        {entry.name, kTypes[entry.field.index()], show(defaults), hide ? "(set)" : show(settings()), entry.help});
  }
  return all;
}

std::vector<std::string> unknown_settings() {
  std::vector<std::string> lines;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.substr(0, 6) != "TUTTI_") continue;
    const auto known = [&](const SettingVariable& entry) { return name == entry.name; };
    if (std::any_of(entries().begin(), entries().end(), known)) continue;
    if (std::find(std::begin(kLaunchVariables), std::end(kLaunchVariables), name) != std::end(kLaunchVariables))
      continue;
    const auto nearest =
        std::min_element(entries().begin(), entries().end(), [&](const SettingVariable& a, const SettingVariable& b) {
          return edit_distance(name, a.name) < edit_distance(name, b.name);
        });
    lines.push_back(fmt::format("{} means nothing to tutti; did you mean {}?", name, nearest->name));
  }
  return lines;
}

}  // namespace tutti
