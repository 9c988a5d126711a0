#include "transport/fake/conversation_test_kit.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tutti {
namespace {

std::size_t size_of_chunk(std::uint64_t number) {
  const std::uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15u;
  if (mixed % 7 == 0) return 0;
  return (mixed >> 32) % (mixed % 3 == 0 ? 100 : 2000) + 1;
}

std::byte byte_of(std::uint64_t chunk, std::size_t at) {
  return static_cast<std::byte>((chunk * 131 + at * 7 + at / 256) & 0xff);
}

OperationTag tag_of(std::uint64_t chunk) { return {static_cast<std::uint32_t>(chunk / 5), 0x5151}; }

}  // namespace

std::string Conversation::progress() const {
  return fmt::format("sent {} released {} expected {} taken {}", send_->sent(), send_->released(), expected_, taken_);
}

void Conversation::act() {
  switch (draw_(4)) {
    case 0:
      offer();
      return;
    case 1:
      return expect(draw_(6));
    default:
      take();
      return;
  }
}

void Conversation::act_all() {
  expect(chunks_);
  while (offer()) {
  }
  while (take()) {
  }
}

void Conversation::check(bool may_fail) {
  if (!may_fail) {
    ASSERT_EQ(send_->error(), nullptr) << send_->error()->message;
    ASSERT_EQ(recv_->error(), nullptr) << recv_->error()->message;
  }
  ASSERT_LE(send_->released(), send_->sent());
  // The memory of released chunks is used for something else at once.
  for (; reused_ < send_->released(); ++reused_, memory_.pop_front())
    std::fill(memory_.front().begin(), memory_.front().end(), std::byte{0xdd});
}

bool Conversation::offer() {
  const std::uint64_t chunk = send_->sent();
  if (chunk >= std::min(chunks_, allowed_)) return false;
  std::vector<std::byte> data(size_of_chunk(chunk));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = byte_of(chunk, i);
  memory_.push_back(std::move(data));
  const bool sent = send_->send(memory_.back().data(), memory_.back().size(), tag_of(chunk));
  if (!sent) memory_.pop_back();
  return sent;
}

void Conversation::expect(std::uint64_t more) {
  for (; more > 0 && expected_ < chunks_; --more, ++expected_) {
    landings_.emplace_back(draw_(2) == 0 ? size_of_chunk(expected_) : 0);
    std::byte* landing = landings_.back().empty() ? nullptr : landings_.back().data();
    recv_->expect(landing, size_of_chunk(expected_), tag_of(expected_));
  }
}

bool Conversation::take() {
  const auto arrival = recv_->poll();
  if (!arrival) return false;
  const auto verify = [&] {
    ASSERT_NE(arrival->data, nullptr);
    ASSERT_EQ(arrival->bytes, size_of_chunk(taken_));
    ASSERT_EQ(arrival->tag, tag_of(taken_));
    const std::byte* landing = landings_.front().empty() ? arrival->data : landings_.front().data();
    ASSERT_EQ(arrival->data, landing);
    for (std::size_t i = 0; i < arrival->bytes; ++i)
      ASSERT_EQ(arrival->data[i], byte_of(taken_, i)) << "chunk " << taken_;
  };
  verify();
  recv_->release();
  ++taken_;
  landings_.pop_front();
  return !testing::Test::HasFatalFailure();
}

}  // namespace tutti
