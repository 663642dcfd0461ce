// AnswerParser: parses one answer of an HTTP/1.x server as its bytes arrive. Pure: no socket, no clock.
//
// The server is another party's, so nothing of it is believed: sizes are checked before memory is taken, and what cannot be understood in one way
// only is refused.
//
// Invariants:
//   HA-1  the parser holds at most kMostAnswerHeadBytes and the limit of the body, for any input
//   HA-2  an answer is complete, or refused for a reason; later bytes change neither
//   HA-3  the result does not depend on how the bytes are cut
//   HA-4  an answer whose end is not announced, or has not come, is never complete
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace pw::http {

inline constexpr size_t kMostAnswerHeadBytes = 32 << 10;

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of a name that comes twice, the last
  std::string body;

  // Returns a header's value; empty if it is missing.
  const std::string& header(const std::string& name) const {
    static const std::string none;
    const auto found = headers.find(name);
    return found == headers.end() ? none : found->second;
  }
};

class AnswerParser {
 public:
  enum class State { kMore, kComplete, kRefused };

  // `has_body`: false for the answer to HEAD.
  explicit AnswerParser(size_t most_body_bytes, bool has_body = true) : most_body_bytes_(most_body_bytes), has_body_(has_body) {}

  State Feed(absl::string_view bytes);
  State state() const { return state_; }
  // REQUIRES: kComplete.
  const Answer& answer() const { return answer_; }
  Answer Take() { return std::move(answer_); }
  // Says what is wrong. REQUIRES: kRefused.
  const std::string& reason() const { return reason_; }

 private:
  enum class Part { kHead, kBody, kChunkSize, kChunk, kChunkEnd, kTrailer };

  State Refuse(std::string reason);
  State ParseHead();
  bool ParseStatusLine(absl::string_view line);
  State StartBody();
  State TakeBody(absl::string_view* bytes);
  State TakeLine(absl::string_view* bytes);
  State ParseLine(absl::string_view line);
  State ParseChunkSize(absl::string_view line);

  const size_t most_body_bytes_;
  const bool has_body_;
  State state_ = State::kMore;
  Part part_ = Part::kHead;
  std::string text_;   // of the head, or of a line
  uint64_t left_ = 0;  // of the body, or of a chunk
  size_t trailer_bytes_ = 0;
  Answer answer_;
  std::string reason_;
};

}  // namespace pw::http
