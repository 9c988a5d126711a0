#include "monitor/event_reader.hpp"

#include <gtest/gtest.h>

#include "monitor/read/recording_test_kit.hpp"

namespace tutti::monitor {
namespace {

Event late(int peer) {
  Event event;
  event.kind = EventKind::rank_late;
  event.peer = peer;
  event.text = "late";
  return event;
}

TEST(EventReader, ReadsEachEventOnceAndInOrder) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  EventReader reader(recorder->map());
  recorder->record(late(1));
  recorder->record(late(2));
  const auto first = reader.read();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].event.peer, 1);
  EXPECT_EQ(first[1].event.peer, 2);
  EXPECT_EQ(first[1].event.text, "late");
  EXPECT_TRUE(reader.read().empty());
  recorder->record(late(3));
  EXPECT_TRUE(reader.has_new());
  EXPECT_EQ(reader.read().size(), 1u);
}

TEST(EventReader, CountsWhatWasOverwrittenBeforeItWasRead) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  EventReader reader(recorder->map());
  for (int i = 0; i < 100; ++i) recorder->record(late(i));
  const auto events = reader.read();
  ASSERT_EQ(events.size(), 16u);
  EXPECT_EQ(events[0].missed, 84u);
  EXPECT_EQ(events[0].event.peer, 84);
  EXPECT_EQ(events[1].missed, 0u);
}

TEST(EventReader, WaitsForOneThatIsBeingWritten) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  EventReader reader(recorder->map());
  for (int i = 0; i < 3; ++i) recorder->record(late(i));
  recorder->map().event(1).index.set(0);
  ASSERT_EQ(reader.read().size(), 1u);
  EXPECT_TRUE(reader.has_new());
  recorder->map().event(1).index.set(2);
  const auto rest = reader.read();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].event.peer, 1);
  EXPECT_EQ(rest[0].missed, 0u);
}

TEST(EventReader, GivesUpOnOneWhoseWriterIsGone) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  EventReader reader(recorder->map());
  for (int i = 0; i < 2; ++i) recorder->record(late(i));
  recorder->map().event(0).index.set(0);
  const Deadline deadline = Deadline::in(10);
  auto events = reader.read();
  EXPECT_TRUE(events.empty());
  while (events.empty() && !deadline.passed()) events = reader.read();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].missed, 1u);
  EXPECT_EQ(events[0].event.peer, 1);
}

}  // namespace
}  // namespace tutti::monitor
