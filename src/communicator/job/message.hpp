// What ranks of a communicator tell each other beside the data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

struct Message {
  enum class Kind : std::uint8_t {
    broken,        // the sender's communicator broke: code, peer, text
    question,      // which operation are you in?
    answer,        // number, signature and text of the call
    agreement,     // a step of shrink's agreement: body
    end_question,  // what did you call? number of a send or receive; signature: 1 of a send to us, 0 of a receive
    end_answer,    // the same number and signature; text: "8 x float32", or empty if that is forgotten
    left,          // to one who asked: the sender's communicator was destroyed
  };
  Kind kind = Kind::broken;
  int from = -1;
  int to = -1;  // -1: all
  ErrorCode code = ErrorCode::internal;
  int peer = -1;
  std::uint32_t number = 0;
  std::uint32_t signature = 0;
  std::string text;
  std::vector<std::byte> body;

  std::vector<std::byte> encode() const;
  static Result<Message> decode(std::span<const std::byte> bytes);
};

}  // namespace tutti
