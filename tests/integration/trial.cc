#include "trial.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "random.hpp"

namespace tutti::integration {

Trial::Trial(const Case& one, Communicator& communicator)
    : case_(one), communicator_(communicator), shape_(make_shape(one, communicator.rank(), communicator.size())) {
  place_buffers();
  if (case_.kind == Kind::messages)
    add_messages();
  else if (is_uneven(case_.kind))
    add_uneven();
  else
    add_even();
}

void Trial::place_buffers() {
  const std::size_t element = size_of(case_.type);
  const std::uint64_t random = hash(case_.salt, communicator_.rank(), 0xB0F);
  const bool allocated = case_.memory == Memory::allocated || (case_.memory == Memory::mixed && random % 2 == 0);
  const std::size_t shift = (random >> 1) % 9 * element;
  const std::size_t inputs = shape_.input.elements + (shape_.in_place ? shape_.input_at : 0);
  const std::size_t outputs = shape_.output.elements + (shape_.in_place ? shape_.output_at : 0);
  first_ = GuardedBuffer((shape_.in_place ? std::max(inputs, outputs) : inputs) * element, shift, allocated);
  second_ = GuardedBuffer(shape_.in_place ? 0 : outputs * element, shift, allocated);
  send_ = first_.data() + (shape_.in_place ? shape_.input_at * element : 0);
  recv_ = shape_.in_place ? first_.data() + shape_.output_at * element : second_.data();
  for (const Block& block : shape_.input.blocks)
    block.write(static_cast<std::byte*>(const_cast<void*>(send_)), element);
  // What the call must not touch may as well be no memory at all.
  if (!shape_.in_place && !shape_.input.used && (random >> 8) % 2 == 0) send_ = nullptr;
  if (!shape_.in_place && !shape_.output.used && (random >> 9) % 2 == 0) recv_ = nullptr;
}

void Trial::add_even() {
  Communicator& c = communicator_;
  const Case& one = case_;
  const Reduction op = reduction_of(one.op, one.type, one.salt, c.rank());
  const void* const send = send_;
  void* const recv = recv_;
  const auto add = [&](auto run, auto submit) { actions_.push_back({Action::kCollective, run, submit}); };
  switch (one.kind) {
    case Kind::all_reduce:
      return add([=, &c] { return c.all_reduce(send, recv, one.count, one.type, op); },
                 [=, &c] { return c.all_reduce_async(send, recv, one.count, one.type, op); });
    case Kind::reduce:
      return add([=, &c] { return c.reduce(send, recv, one.count, one.type, op, one.root); },
                 [=, &c] { return c.reduce_async(send, recv, one.count, one.type, op, one.root); });
    case Kind::broadcast:
      return add([=, &c] { return c.broadcast(send, recv, one.count, one.type, one.root); },
                 [=, &c] { return c.broadcast_async(send, recv, one.count, one.type, one.root); });
    case Kind::all_gather:
      return add([=, &c] { return c.all_gather(send, recv, one.count, one.type); },
                 [=, &c] { return c.all_gather_async(send, recv, one.count, one.type); });
    case Kind::reduce_scatter:
      return add([=, &c] { return c.reduce_scatter(send, recv, one.count, one.type, op); },
                 [=, &c] { return c.reduce_scatter_async(send, recv, one.count, one.type, op); });
    case Kind::all_to_all:
      return add([=, &c] { return c.all_to_all(send, recv, one.count, one.type); },
                 [=, &c] { return c.all_to_all_async(send, recv, one.count, one.type); });
    case Kind::gather:
      return add([=, &c] { return c.gather(send, recv, one.count, one.type, one.root); },
                 [=, &c] { return c.gather_async(send, recv, one.count, one.type, one.root); });
    case Kind::scatter:
      return add([=, &c] { return c.scatter(send, recv, one.count, one.type, one.root); },
                 [=, &c] { return c.scatter_async(send, recv, one.count, one.type, one.root); });
    default:
      return add([&c] { return c.barrier(); }, [&c] { return c.barrier_async(); });
  }
}

void Trial::add_uneven() {
  const auto run = [this]() -> Status {
    Communicator& c = communicator_;
    const Shape& s = shape_;
    const Reduction op = reduction_of(case_.op, case_.type, case_.salt, c.rank());
    switch (case_.kind) {
      case Kind::all_gather_v:
        return c.all_gather_v(send_, recv_, s.recv_counts, s.recv_offsets, case_.type);
      case Kind::reduce_scatter_v:
        return c.reduce_scatter_v(send_, recv_, s.send_counts, s.send_offsets, case_.type, op);
      case Kind::all_to_all_v:
        return c.all_to_all_v(send_, s.send_counts, s.send_offsets, recv_, s.recv_counts, s.recv_offsets, case_.type);
      case Kind::gather_v:
        return c.gather_v(send_, s.own_count, recv_, s.recv_counts, s.recv_offsets, case_.type, case_.root);
      default:
        return c.scatter_v(send_, s.send_counts, s.send_offsets, recv_, s.own_count, case_.type, case_.root);
    }
  };
  actions_.push_back({Action::kCollective, run, nullptr});
}

void Trial::add_messages() {
  for (const SentMessage& message : shape_.messages) add_message(message);
}

void Trial::add_message(const SentMessage& message) {
  Communicator& c = communicator_;
  const DataType type = case_.type;
  const std::size_t element = size_of(type);
  const void* const from = static_cast<const std::byte*>(send_) + message.send_offset * element;
  void* const to = static_cast<std::byte*>(recv_) + message.recv_offset * element;
  if (case_.mode == Mode::blocking && message.from == c.rank() && message.to == c.rank()) {
    actions_.push_back({Action::kCollective, [this, message] { return send_to_self(message); }, nullptr});
    return;
  }
  if (message.from == c.rank())
    actions_.push_back({2 * message.to, [=, &c] { return c.send(from, message.count, type, message.to); },
                        [=, &c] { return c.send_async(from, message.count, type, message.to); }});
  if (message.to == c.rank())
    actions_.push_back({2 * message.from + 1, [=, &c] { return c.recv(to, message.count, type, message.from); },
                        [=, &c] { return c.recv_async(to, message.count, type, message.from); }});
}

Status Trial::send_to_self(const SentMessage& message) {
  const std::size_t element = size_of(case_.type);
  Result<Work> received = communicator_.recv_async(static_cast<std::byte*>(recv_) + message.recv_offset * element,
                                                   message.count, case_.type, message.from);
  if (!received) return tl::unexpected(received.error());
  const Status sent = communicator_.send(static_cast<const std::byte*>(send_) + message.send_offset * element,
                                         message.count, case_.type, message.to);
  if (!sent) return sent;
  return received->wait();
}

std::vector<std::byte> Trial::image(const GuardedBuffer& buffer, bool holds_input, bool holds_output) const {
  const std::size_t element = size_of(case_.type);
  std::vector<std::byte> bytes(buffer.whole_bytes(), GuardedBuffer::kFill);
  std::byte* const data = bytes.data() + buffer.front();
  if (holds_input)
    for (const Block& block : shape_.input.blocks)
      block.write(data + (shape_.in_place ? shape_.input_at * element : 0), element);
  if (holds_output)
    for (const Block& block : shape_.output.blocks)
      block.write(data + (shape_.in_place ? shape_.output_at * element : 0), element);
  return bytes;
}

/// The slow way, where the bytes differ: outputs by value, everything else by byte.
std::string Trial::compare_elements(const GuardedBuffer& buffer, const std::vector<std::byte>& expected,
                                    bool holds_output) const {
  const std::size_t element = size_of(case_.type);
  const Operator op = reduces(case_.kind) ? case_.op : Operator::user;  // what is only moved keeps its bits
  std::vector<bool> compared(expected.size(), false);
  if (holds_output)
    for (const Block& block : shape_.output.blocks)
      for (std::size_t i = 0; i < block.count; ++i) {
        const std::size_t index = (shape_.in_place ? shape_.output_at : 0) + block.offset + i;
        const std::size_t at = buffer.front() + index * element;
        const Bits got = load(case_.type, buffer.whole() + at);
        const Bits wanted = load(case_.type, expected.data() + at);
        if (!agrees(case_.type, op, got, wanted))
          return fmt::format("element {} of a block of {} is {}, not {}", i, block.count, show(case_.type, got),
                             show(case_.type, wanted));
        std::fill_n(compared.begin() + static_cast<std::ptrdiff_t>(at), element, true);
      }
  for (std::size_t at = 0; at < expected.size(); ++at)
    if (!compared[at] && buffer.whole()[at] != expected[at])
      return fmt::format("byte {} relative to the buffer, which is not to be written, has changed",
                         static_cast<std::ptrdiff_t>(at) - static_cast<std::ptrdiff_t>(buffer.front()));
  return "";
}

std::string Trial::compare(const GuardedBuffer& buffer, bool holds_input, bool holds_output) const {
  const std::vector<std::byte> expected = image(buffer, holds_input, holds_output);
  if (std::memcmp(expected.data(), buffer.whole(), expected.size()) == 0) return "";
  return compare_elements(buffer, expected, holds_output);
}

std::string Trial::difference() const {
  if (shape_.in_place) {
    const std::string shared = compare(first_, true, true);
    return shared.empty() ? shared : "in place: " + shared;
  }
  if (const std::string input = compare(first_, true, false); !input.empty()) return "input: " + input;
  if (const std::string output = compare(second_, false, true); !output.empty()) return "output: " + output;
  return "";
}

}  // namespace tutti::integration
