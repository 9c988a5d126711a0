#include "tutti/error.hpp"

#include <utility>

namespace tutti {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid argument";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::rank_died:
      return "rank died";
    case ErrorCode::timed_out:
      return "timed out";
    case ErrorCode::aborted:
      return "aborted";
    case ErrorCode::refused:
      return "refused";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::system:
      return "system";
    case ErrorCode::no_quorum:
      return "no quorum";
    case ErrorCode::corrupted:
      return "corrupted";
    case ErrorCode::internal:
      return "internal";
  }
  return "?";
}

std::string Error::to_string() const {
  std::string text;
  if (rank >= 0) text += "rank " + std::to_string(rank) + ": ";
  // A message that begins with the operation need not say it twice.
  if (!operation.empty() && message.rfind(operation, 0) != 0) text += operation + ": ";
  if (!step.empty()) text += step + ": ";
  return text + message;
}

tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace tutti
