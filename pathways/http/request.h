// RequestParser: parses the head of one HTTP/1.x request as its bytes arrive. Pure: no socket, no clock.
//
// The server answers GET and HEAD and closes (server.h), so there is no body, no pipelining and no compression. Bytes after the head are ignored.
//
// Invariants:
//   RQ-1  the parser holds at most kMostHeadBytes, for any input
//   RQ-2  a request is complete, or refused with the status of its answer; later bytes change neither
//   RQ-3  the result does not depend on how the bytes are cut
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace pw::http {

inline constexpr size_t kMostHeadBytes = 8 << 10;

struct Request {
  std::string method;         // "GET" or "HEAD"
  std::string path;           // begins with '/'; percent signs are not decoded
  std::string query;          // the part behind the '?'
  std::string host;           // of the Host header
  std::string authorization;  // of the Authorization header, for an operator's token
};

class RequestParser {
 public:
  enum class State { kMore, kComplete, kRefused };

  State Feed(absl::string_view bytes);
  State state() const { return state_; }
  // REQUIRES: kComplete.
  const Request& request() const { return request_; }
  // Return the HTTP status of the answer, and the reason. REQUIRES: kRefused.
  int status() const { return status_; }
  const std::string& reason() const { return reason_; }

 private:
  State Refuse(int status, std::string reason);
  State ParseHead(absl::string_view head);
  State ParseRequestLine(absl::string_view line);
  State ParseHeader(absl::string_view line);

  State state_ = State::kMore;
  std::string head_;
  Request request_;
  bool needs_host_ = false;
  bool has_host_ = false;
  int status_ = 0;
  std::string reason_;
};

}  // namespace pw::http
