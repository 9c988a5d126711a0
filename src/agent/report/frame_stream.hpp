// Frames over a connection that neither end waits for: what the kernel does not take now is kept, up to a bound that
// the owner watches. One thread; the owner polls descriptor() for events().
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "agent/report/frames.hpp"
#include "base/fd.hpp"

namespace tutti::agent {

class FrameStream {
 public:
  /// `most_bytes`: of a payload that comes in.
  FrameStream(Fd socket, std::size_t most_bytes) : socket_(std::move(socket)), reader_(most_bytes) {}

  int descriptor() const { return socket_.get(); }
  bool has_backlog() const { return written_ < out_.size(); }
  /// Bytes that wait to be sent.
  std::size_t backlog() const { return out_.size() - written_; }

  void push(FrameKind kind, std::string_view payload);
  /// Sends what the kernel takes.
  Status flush();
  /// Reads what is there, some 256 KiB at most so that others have their turn, and hands over whole frames. An error,
  /// of the connection or of `take`, is final.
  Status receive(const std::function<Status(Frame)>& take);

 private:
  Fd socket_;
  ReportReader reader_;
  Blob out_;
  std::size_t written_ = 0;  // of out_
};

}  // namespace tutti::agent
