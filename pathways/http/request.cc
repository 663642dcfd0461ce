#include "pathways/http/request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace pw::http {
namespace {

constexpr absl::string_view kLineEnd = "\r\n";
constexpr char kHeadEnd[] = "\r\n\r\n";

// Returns whether `text` may be a method or a header's name (RFC 9110, section 5.6.2).
bool IsToken(absl::string_view text) {
  constexpr absl::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kMarks.find(c) != absl::string_view::npos;
  });
}

bool IsVisible(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

// Returns whether `text` may be a header's value: no control characters except the tab.
bool IsValue(absl::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7F; });
}

}  // namespace

RequestParser::State RequestParser::Refuse(int status, std::string reason) {
  status_ = status;
  reason_ = std::move(reason);
  head_.clear();
  return state_ = State::kRefused;
}

RequestParser::State RequestParser::Feed(absl::string_view bytes) {
  if (state_ != State::kMore) return state_;
  const size_t before = head_.size();
  head_.append(bytes.data(), std::min(bytes.size(), kMostHeadBytes - before));
  // The end may have begun in an earlier piece.
  const size_t end = head_.find(kHeadEnd, before < sizeof(kHeadEnd) ? 0 : before - sizeof(kHeadEnd));
  if (end != std::string::npos) return ParseHead(absl::string_view(head_).substr(0, end));
  if (head_.size() == kMostHeadBytes) return Refuse(431, "the head of the request is too long");
  return State::kMore;
}

RequestParser::State RequestParser::ParseHead(absl::string_view head) {
  bool first = true;
  for (const absl::string_view line : absl::StrSplit(head, kLineEnd)) {
    if ((first ? ParseRequestLine(line) : ParseHeader(line)) == State::kRefused) return state_;
    first = false;
  }
  if (needs_host_ && !has_host_) return Refuse(400, "the request names no host");
  head_.clear();
  return state_ = State::kComplete;
}

RequestParser::State RequestParser::ParseRequestLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !IsToken(words[0]) || !IsVisible(words[1])) return Refuse(400, "this is not an HTTP request");
  if (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") {
    return absl::StartsWith(words[2], "HTTP/") ? Refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
                                               : Refuse(400, "this is not an HTTP request");
  }
  if (words[0] != "GET" && words[0] != "HEAD") return Refuse(405, "only GET and HEAD are answered here");
  if (!absl::StartsWith(words[1], "/")) return Refuse(400, "the request's target must be a path");
  const size_t question = words[1].find('?');
  request_.method = std::string(words[0]);
  request_.path = std::string(words[1].substr(0, question));
  if (question != absl::string_view::npos) request_.query = std::string(words[1].substr(question + 1));
  needs_host_ = words[2] == "HTTP/1.1";
  return State::kMore;
}

RequestParser::State RequestParser::ParseHeader(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon)))
    return Refuse(400, "a header of the request is malformed");
  const absl::string_view name = line.substr(0, colon);
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (!IsValue(value)) return Refuse(400, "a header of the request is malformed");
  if (absl::EqualsIgnoreCase(name, "transfer-encoding") || (absl::EqualsIgnoreCase(name, "content-length") && value != "0")) {
    return Refuse(413, "requests with a body are not taken here");
  }
  if (absl::EqualsIgnoreCase(name, "host")) {
    if (std::exchange(has_host_, true)) return Refuse(400, "the request names two hosts");
    request_.host = std::string(value);
  }
  if (absl::EqualsIgnoreCase(name, "authorization")) {
    if (!request_.authorization.empty()) return Refuse(400, "the request has two headers 'authorization'");
    request_.authorization = std::string(value);
  }
  return State::kMore;
}

}  // namespace pw::http
