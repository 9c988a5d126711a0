#include "monitor/event_reader.hpp"

#include <algorithm>

namespace tutti::monitor {
namespace {

constexpr double kWriterPatience = 1.0;       // seconds; an event takes less than a microsecond to write
constexpr std::uint64_t kWritersAtOnce = 64;  // an event older than so many others is not being written any more

}  // namespace

bool EventCursor::waits(std::uint64_t count) {
  if (next_ + kWritersAtOnce < count) return false;
  if (!std::exchange(blocked_, true)) patience_ = Deadline::in(kWriterPatience);
  return !patience_.passed();
}

bool EventReader::read_one(std::uint64_t index, ToldEvent& event) const {
  const EventRecord& record = map_.event(index);
  if (record.index.get() != index + 1) return false;
  event.index = index;
  event.text = record.text.get();  // first: its letters are read in no order, what follows in order
  event.at = record.at.get();
  event.began = record.began.get();
  event.kind = static_cast<EventKind>(record.kind.get());
  event.cause = static_cast<Cause>(record.cause.get());
  event.communicator = record.communicator.get();
  event.rank = record.rank.get();
  event.peer = record.peer.get();
  event.lane = record.lane.get();
  event.operation = record.operation.get();
  for (int i = 0; i < 3; ++i) event.values[i] = record.values[i].get();
  return record.index.get() == index + 1;
}

std::vector<EventCursor::Seen<ToldEvent>> EventReader::read() {
  const std::uint64_t count = map_.head().event_count.get();
  const std::uint64_t room = map_.shape().events;
  std::vector<ToldEvent> found;
  for (std::uint64_t i = std::max(cursor_.next(), count > room ? count - room : 0); i < count; ++i) {
    ToldEvent event;
    if (read_one(i, event)) found.push_back(std::move(event));
  }
  return cursor_.take(std::move(found), count);
}

}  // namespace tutti::monitor
