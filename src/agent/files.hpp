// What the agent writes to disk: events, appended line by line, and metrics for node_exporter's textfile collector. A
// disk that is full, a pipe nobody reads, a folder that is gone: they try again with growing pauses, say so once a
// minute at most, and never wait. One thread; times are monotonic seconds.
#pragma once

#include <cstdint>
#include <string>

#include "agent/outbox.hpp"
#include "agent/pacing.hpp"
#include "base/backoff.hpp"
#include "base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti::agent {

class EventFile {
 public:
  /// "-": standard output. A file that was renamed or removed is made anew.
  explicit EventFile(std::string path) : path_(std::move(path)) {}

  void push(std::string line) { outbox_.push(std::move(line)); }
  void work(double now);
  /// When work() has something to do; never: infinity.
  double due() const;
  std::uint64_t dropped() const { return outbox_.dropped(); }
  std::uint64_t failures() const { return failures_; }

 private:
  Status make_ready(double now);
  bool was_moved() const;
  void fail_at(double now, const std::string& why);

  std::string path_;
  Outbox outbox_;
  Fd file_;
  double retry_ = 0;
  double next_check_ = 0;  // whether the file is still where it was
  Backoff backoff_ = Backoff::with_jitter(1, 30);
  RateLimitedLog log_{kLogInterval};
  bool has_failed_ = false;
  std::uint64_t failures_ = 0;
};

class TextFile {
 public:
  TextFile(std::string path, double interval) : path_(std::move(path)), interval_(interval) {}

  double due() const { return due_; }
  /// Replaces the file as a whole; where that fails the old one stays.
  void write(double now, const std::string& text);
  std::uint64_t failures() const { return failures_; }

 private:
  Status replace(const std::string& text) const;

  std::string path_;
  double interval_;
  double due_ = 0;
  Backoff backoff_ = Backoff::with_jitter(1, 60);
  RateLimitedLog log_{kLogInterval};
  std::uint64_t failures_ = 0;
};

}  // namespace tutti::agent
