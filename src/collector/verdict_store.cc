#include "collector/verdict_store.hpp"

#include <fmt/core.h>
#include <sqlite3.h>

#include <nlohmann/json.hpp>

#include "diagnosis/fault.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::collector {
namespace {

using diagnosis::PastFault;
using diagnosis::Telemetry;
using diagnosis::Verdict;
using diagnosis::VerdictChange;

constexpr int kVersion = 1;
constexpr double kDay = 86400;
constexpr double kKept = 90 * kDay;
constexpr double kRemembered = 7 * kDay;
constexpr int kMostRemembered = 4096;
constexpr double kComesBackWithin = 60;  // seconds after the start
constexpr int kBusyMilliseconds = 200;   // for which another process may hold the database

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS verdicts("
    "id INTEGER PRIMARY KEY, job TEXT NOT NULL, command TEXT NOT NULL, key TEXT NOT NULL, class TEXT NOT NULL, "
    "confidence REAL NOT NULL, "
    "host TEXT NOT NULL, rank INTEGER, place TEXT NOT NULL, began REAL NOT NULL, ended REAL, suspects TEXT NOT NULL, "
    "evidence TEXT NOT NULL, communicators TEXT NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS verdicts_by_end ON verdicts(ended);";

/// A prepared statement. Values are bound in order; step() says whether there is a row.
class Statement {
 public:
  Statement(sqlite3* database, const char* text) {
    result_ = sqlite3_prepare_v2(database, text, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(double value) { return note(sqlite3_bind_double(statement_, ++bound_, value)); }
  Statement& bind(std::int64_t value) { return note(sqlite3_bind_int64(statement_, ++bound_, value)); }
  Statement& bind(const std::string& value) {
    return note(
        sqlite3_bind_text(statement_, ++bound_, value.c_str(), static_cast<int>(value.size()), SQLITE_TRANSIENT));
  }
  Statement& bind_null() { return note(sqlite3_bind_null(statement_, ++bound_)); }

  bool step() {
    if (result_ != SQLITE_OK && result_ != SQLITE_ROW) return false;
    result_ = sqlite3_step(statement_);
    return result_ == SQLITE_ROW;
  }
  bool is_done() const { return result_ == SQLITE_DONE; }

  std::string text(int column) const {
    const auto* const value = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return value == nullptr ? "" : value;
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  Statement& note(int result) {
    if (result_ == SQLITE_OK) result_ = result;
    return *this;
  }

  sqlite3_stmt* statement_ = nullptr;
  int result_ = SQLITE_OK;
  int bound_ = 0;
};

std::string id_of(std::uint64_t job) { return fmt::format("{:016x}", job); }

}  // namespace

VerdictStore::~VerdictStore() { sqlite3_close(database_); }

tl::unexpected<Error> VerdictStore::error(const std::string& what) const {
  return fail(ErrorCode::system, fmt::format("{}: {}: {}", path_, what, sqlite3_errmsg(database_)));
}

Result<std::unique_ptr<VerdictStore>> VerdictStore::open(const std::string& path, double now) {
  sqlite3* database = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<VerdictStore> store(new VerdictStore(database, path, now));
  if (opened != SQLITE_OK) return store->error("it cannot be opened");
  sqlite3_busy_timeout(database, kBusyMilliseconds);
  if (Status prepared = store->prepare(now); !prepared) return tl::unexpected(prepared.error());
  return store;
}

Status VerdictStore::prepare(double now) {
  {
    Statement version(database_, "PRAGMA user_version");
    if (!version.step()) return error("it is no database");
    if (version.integer(0) > kVersion)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: the database is of version {}; expected {} at most",
                                                           path_, version.integer(0), kVersion));
  }
  // A reader does not hold up the collector, nor does each row wait for the disk.
  for (const char* text :
       {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", kSchema, "PRAGMA user_version = 1"})
    if (sqlite3_exec(database_, text, nullptr, nullptr, nullptr) != SQLITE_OK) return error("it cannot be prepared");
  Statement old(database_, "DELETE FROM verdicts WHERE ended < ?");
  old.bind(now - kKept).step();
  if (!old.is_done()) return error("old verdicts cannot be dropped");
  Statement open(database_, "SELECT id, job, key FROM verdicts WHERE ended IS NULL");
  while (open.step()) leftover_[{open.text(1), open.text(2)}] = open.integer(0);
  if (!open.is_done()) return error("open verdicts cannot be read");
  return {};
}

Result<std::vector<PastFault>> VerdictStore::past(double now) {
  Statement rows(database_,
                 "SELECT class, host, rank, place, command FROM verdicts WHERE ended > ? ORDER BY ended DESC LIMIT ?");
  rows.bind(now - kRemembered).bind(std::int64_t{kMostRemembered});
  std::vector<PastFault> past;
  while (rows.step()) {
    const auto fault = diagnosis::fault_of(rows.text(0));
    if (!fault) continue;
    past.push_back(
        {*fault, rows.text(1), rows.is_null(2) ? -1 : static_cast<int>(rows.integer(2)), rows.text(3), rows.text(4)});
  }
  if (!rows.is_done()) return error("past verdicts cannot be read");
  return std::vector<PastFault>(past.rbegin(), past.rend());
}

void VerdictStore::add(const VerdictChange& change, const Telemetry& telemetry) {
  Status written;
  const double at = change.at + telemetry.realtime_offset;
  if (change.began) {
    written = begin(change, telemetry);
  } else if (const auto row = open_.find({id_of(telemetry.job), key_of(change.verdict)}); row != open_.end()) {
    written = end(row->second, at);
    open_.erase(row);
  }
  if (!written) log_.warn(written.error().message, at);
}

Status VerdictStore::begin(const VerdictChange& change, const Telemetry& telemetry) {
  const Verdict& verdict = change.verdict;
  const OpenKey key{id_of(telemetry.job), key_of(verdict)};
  if (const auto known = leftover_.find(key); known != leftover_.end()) {
    open_[key] = known->second;
    leftover_.erase(known);
    return {};
  }
  const auto json = json_of(verdict, telemetry.realtime_offset);
  Statement row(
      database_,
      "INSERT INTO verdicts(job, command, key, class, confidence, host, rank, place, began, suspects, evidence, "
      "communicators, text) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.bind(key.first)
      .bind(telemetry.command)
      .bind(key.second)
      .bind(std::string(name_of(verdict.fault)))
      .bind(verdict.confidence);
  const bool has_suspect = !verdict.suspects.empty();
  row.bind(has_suspect ? verdict.suspects.front().host : std::string());
  if (has_suspect && verdict.suspects.front().rank >= 0)
    row.bind(std::int64_t{verdict.suspects.front().rank});
  else
    row.bind_null();
  row.bind(verdict.place).bind(change.at + telemetry.realtime_offset);
  for (const char* field : {"suspects", "evidence", "communicators"}) row.bind(json.at(field).dump());
  row.bind(verdict.text).step();
  if (!row.is_done()) return error("a verdict cannot be written");
  open_[key] = sqlite3_last_insert_rowid(database_);
  return {};
}

Status VerdictStore::end(std::int64_t row, double at) {
  Statement update(database_, "UPDATE verdicts SET ended = ? WHERE id = ?");
  update.bind(at).bind(row).step();
  if (!update.is_done()) return error("the end of a verdict cannot be written");
  return {};
}

void VerdictStore::tick(double now) {
  if (leftover_.empty() || now < began_ + kComesBackWithin) return;
  for (const auto& [key, row] : leftover_)
    if (const Status ended = end(row, began_); !ended) log_.warn(ended.error().message, now);
  leftover_.clear();
}

}  // namespace tutti::collector
