#include "pathways/base/json_writer.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "pathways/base/utf8.h"

namespace pw {

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
    const char c = value[0];
    size_t length = 1;
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
  std::snprintf(number, sizeof(number), "%.6g", value);
  text_ += std::isfinite(value) ? number : "null";
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
