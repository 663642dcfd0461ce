// JsonWriter: writes JSON text, value by value. It writes commas, quotes and escapes; the caller balances Begin and End calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pw {

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);  // bytes that are not UTF-8 become U+FFFD
  JsonWriter& Int(int64_t value);
  JsonWriter& Number(double value);        // not finite: null
  JsonWriter& Fixed(int64_t thousandths);  // 1234 is 1.234
  JsonWriter& Bool(bool value);
  std::string Take() { return std::move(text_); }  // returns the text; the last call

 private:
  JsonWriter& Open(char c);
  JsonWriter& Close(char c);
  void Separate();

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace pw
