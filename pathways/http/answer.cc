#include "pathways/http/answer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace pw::http {
namespace {

constexpr size_t kMostLineBytes = 1024;

// Parses digits, and nothing else.
bool ParseLength(absl::string_view text, uint64_t* value) {
  const bool digits = !text.empty() && text.size() <= 18 && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  return digits && absl::SimpleAtoi(text, value);
}

bool IsHeaderName(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("!#$%&'*+-.^_`|~", c); });
}

}  // namespace

AnswerParser::State AnswerParser::Refuse(std::string reason) {
  reason_ = std::move(reason);
  text_.clear();
  answer_.body.clear();
  return state_ = State::kRefused;
}

AnswerParser::State AnswerParser::Feed(absl::string_view bytes) {
  while (state_ == State::kMore && !bytes.empty()) {
    if (part_ == Part::kBody || part_ == Part::kChunk) {
      TakeBody(&bytes);
    } else {
      TakeLine(&bytes);
    }
  }
  return state_;
}

// Takes bytes up to the end of the head, or of a line.
AnswerParser::State AnswerParser::TakeLine(absl::string_view* bytes) {
  const bool head = part_ == Part::kHead;
  const size_t most = head ? kMostAnswerHeadBytes : kMostLineBytes;
  // Byte by byte: heads and lines are short.
  while (!bytes->empty()) {
    if (text_.size() == most)
      return Refuse(absl::StrCat(head ? "its head" : "a line between its chunks", " has more than ", most, " bytes"));
    text_.push_back(bytes->front());
    bytes->remove_prefix(1);
    if (head && absl::EndsWith(text_, "\r\n\r\n")) return ParseHead();
    if (!head && absl::EndsWith(text_, "\r\n")) {
      const std::string line = text_.substr(0, text_.size() - 2);
      text_.clear();
      return ParseLine(line);
    }
  }
  return state_;
}

bool AnswerParser::ParseStatusLine(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "HTTP/1.") || line.size() < 5 || !absl::ascii_isdigit(line[0]) || line[1] != ' ') return false;
  uint64_t status = 0;
  if (!ParseLength(line.substr(2, 3), &status) || status < 100 || (line.size() > 5 && line[5] != ' ')) return false;
  answer_.status = static_cast<int>(status);
  return true;
}

AnswerParser::State AnswerParser::ParseHead() {
  const std::string head = text_.substr(0, text_.size() - 4);
  text_.clear();
  const std::vector<absl::string_view> lines = absl::StrSplit(head, "\r\n");
  if (!ParseStatusLine(lines[0])) return Refuse("it does not speak HTTP/1");
  bool has_length = false;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    if (!IsHeaderName(field.first) || lines[i].find_first_of(absl::string_view("\r\n\0", 3)) != absl::string_view::npos)
      return Refuse("it sends a header that is none");
    const std::string name = absl::AsciiStrToLower(field.first);
    const std::string value(absl::StripAsciiWhitespace(field.second));
    if (name == "content-length" && has_length && answer_.headers[name] != value) return Refuse("it announces two lengths");
    has_length = has_length || name == "content-length";
    answer_.headers[name] = value;
  }
  if (answer_.status < 200) {  // such as 100 Continue: the answer follows
    if (answer_.status == 101) return Refuse("it changes to another protocol");
    answer_ = {};
    return state_;
  }
  return StartBody();
}

AnswerParser::State AnswerParser::StartBody() {
  const std::string &encoding = answer_.header("transfer-encoding"), &length = answer_.header("content-length");
  if (!has_body_ || answer_.status == 204 || answer_.status == 304) return state_ = State::kComplete;
  if (!encoding.empty()) {
    if (!absl::EqualsIgnoreCase(encoding, "chunked") || !length.empty())
      return Refuse(absl::StrCat("it sends its answer in an unknown way, '", encoding.substr(0, 40), "'"));
    part_ = Part::kChunkSize;
    return state_;
  }
  if (!ParseLength(length, &left_)) return Refuse("it does not say how long its answer is");
  if (left_ > most_body_bytes_)
    return Refuse(absl::StrCat("its answer has ", left_, " bytes; at most ", most_body_bytes_, " were expected"));
  part_ = Part::kBody;
  answer_.body.reserve(static_cast<size_t>(left_));
  return left_ == 0 ? state_ = State::kComplete : state_;
}

AnswerParser::State AnswerParser::TakeBody(absl::string_view* bytes) {
  const size_t taken = static_cast<size_t>(std::min<uint64_t>(left_, bytes->size()));
  answer_.body.append(bytes->data(), taken);
  bytes->remove_prefix(taken);
  left_ -= taken;
  if (left_ > 0) return state_;
  if (part_ == Part::kBody) return state_ = State::kComplete;
  part_ = Part::kChunkEnd;
  return state_;
}

AnswerParser::State AnswerParser::ParseLine(absl::string_view line) {
  switch (part_) {
    case Part::kChunkSize:
      return ParseChunkSize(line);
    case Part::kChunkEnd:
      if (!line.empty()) return Refuse("a chunk of its answer is longer than it says");
      part_ = Part::kChunkSize;
      return state_;
    default:
      trailer_bytes_ += line.size() + 2;
      if (line.empty()) return state_ = State::kComplete;
      return trailer_bytes_ > kMostAnswerHeadBytes ? Refuse("it sends too many headers behind its answer") : state_;
  }
}

AnswerParser::State AnswerParser::ParseChunkSize(absl::string_view line) {
  const absl::string_view digits = absl::StripAsciiWhitespace(line.substr(0, line.find(';')));
  const bool hex = !digits.empty() && digits.size() <= 15 && std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit);
  if (!hex || !absl::SimpleHexAtoi(digits, &left_)) return Refuse("it sends a chunk without a size");
  if (left_ > most_body_bytes_ - answer_.body.size())
    return Refuse(absl::StrCat("its answer has more than the ", most_body_bytes_, " bytes that were expected"));
  part_ = left_ == 0 ? Part::kTrailer : Part::kChunk;
  return state_;
}

}  // namespace pw::http
