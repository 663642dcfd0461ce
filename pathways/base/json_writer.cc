#include "pathways/base/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "pathways/base/utf8.h"

namespace pw {
namespace {

// Returns the length of the beginning that is written as it is: printable ASCII.
size_t PlainLength(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && text[length] >= 0x20 && text[length] < 0x7F && text[length] != '"' && text[length] != '\\')
    ++length;
  return length;
}

}  // namespace

void JsonWriter::Separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::Open(char c) {
  Separate();
  text_ += c;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char c) {
  text_ += c;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  String(key);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  text_ += '"';
  while (!value.empty()) {
    size_t length = PlainLength(value);
    text_ += value.substr(0, length);
    value.remove_prefix(length);
    if (value.empty()) break;
    const char c = value[0];
    length = 1;
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      text_ += escaped;
    } else if (length = Utf8Length(value); length > 0) {
      text_ += value.substr(0, length);
    } else {
      text_ += "\\ufffd";
      length = 1;
    }
    value.remove_prefix(length);
  }
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  absl::StrAppend(&text_, value);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  Separate();
  char number[40];
  const std::to_chars_result end = std::to_chars(number, number + sizeof(number), value, std::chars_format::general, 6);
  text_ += std::isfinite(value) ? std::string_view(number, end.ptr) : "null";
  return *this;
}

JsonWriter& JsonWriter::Fixed(int64_t thousandths) {
  Separate();
  const uint64_t size = thousandths < 0 ? -static_cast<uint64_t>(thousandths) : static_cast<uint64_t>(thousandths);
  absl::StrAppend(&text_, thousandths < 0 ? "-" : "", size / 1000, ".", absl::Dec(size % 1000, absl::kZeroPad3));
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  text_ += value ? "true" : "false";
  return *this;
}

}  // namespace pw
