// A lane: a way for frames between two processes, both ways, each in order and whole until the lane breaks. TCP
// connections and simulated lanes implement it; a Peer owns and uses it.
//
// Everything here is called under the owner's mutex. From within post() a lane calls nothing but transmitted() and
// unsettled(); the rest comes from the loop that drives it, also what broke during post().
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "monitor/path_view.hpp"
#include "transport/frame.hpp"
#include "transport/lane_slot.hpp"
#include "tutti/error.hpp"

namespace tutti {

class Lane {
 public:
  Lane(std::uint32_t index, std::uint32_t epoch) : index_(index), epoch_(epoch) {}
  virtual ~Lane() = default;

  std::uint32_t index() const { return index_; }
  std::uint32_t epoch() const { return epoch_; }

  /// Queues a frame and moves what can be moved now. The payload is read where it lies, until the owner heard
  /// transmitted(), or forget_outgoing(). `keep`: the frame is sent even where its link is forgotten before.
  virtual void post(const FrameHeader& header, const std::byte* payload, bool keep) = 0;
  /// The memory of a link's chunks goes away: nothing of it is read after this. What had to be kept, and the rest of a
  /// frame half sent, are copied.
  virtual void forget_outgoing(const LinkId& link) = 0;
  /// The memory of a link's landings goes away: nothing of it is written after this.
  virtual void forget_incoming(const LinkId& link) = 0;
  /// Nothing arrives from this lane any more, and nothing leaves.
  virtual void close() = 0;
  /// For how long what was sent has not been answered by the other end (its kernel, its port: not the process there,
  /// which may be busy). Asked every few milliseconds, with the clock's time, while anything waits.
  virtual Silence silence(double now) = 0;
  /// How far what was posted has come; asked where something takes longer than usual.
  virtual monitor::PathView look() { return {}; }
  /// Bytes of frames that have left this process, as PathView::delivered counts them.
  virtual std::uint64_t handed_over() const { return 0; }
  /// For messages: "10.0.0.1:4711".
  virtual std::string name() const = 0;

 private:
  std::uint32_t index_;
  std::uint32_t epoch_;
};

inline FrameHeader header_for(const Lane& lane, FrameType type, const LinkId& link = {}) {
  FrameHeader header;
  header.type = type;
  header.epoch = lane.epoch();
  header.link = link;
  return header;
}

/// What lanes belong to and report to. An error from begin() or complete() means that the peer
/// broke the rules: the lane is of no use any more. All but mutex() are called with the mutex held.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;

  std::mutex& mutex() { return mutex_; }

  /// A frame's header has come: where its payload goes; null: nowhere. The place may be withdrawn by
  /// Lane::forget_incoming.
  virtual Result<std::byte*> begin(Lane& lane, const FrameHeader& header) = 0;
  /// The frame begun last on this lane is here whole.
  virtual Status complete(Lane& lane, const FrameHeader& header) = 0;
  /// The lane needs the frame's payload no more.
  virtual void transmitted(Lane& lane, const FrameHeader& header) = 0;
  /// Something was sent on a lane on which nothing waited for an answer: silence() is to be asked soon.
  virtual void unsettled() = 0;
  /// The lane has been read for now. `settled`: it is not in the midst of a frame.
  virtual void pause(Lane& lane, bool settled) = 0;
  /// The lane is of no use any more. `orderly`: the peer had said goodbye.
  virtual void lane_down(Lane& lane, const Error& why, bool orderly) = 0;

 protected:
  mutable std::mutex mutex_;
};

}  // namespace tutti
