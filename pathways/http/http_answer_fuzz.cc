// Fuzzes the parser of HTTP answers with any bytes. The first byte selects the cuts: the outcome must not depend on them.
#include <cstdint>

#include "absl/strings/string_view.h"
#include "pathways/base/log.h"
#include "pathways/http/answer.h"

using pw::http::AnswerParser;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr size_t kMostBody = 1 << 16;
  const absl::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  AnswerParser whole(kMostBody), cut(kMostBody);
  whole.Feed(input);
  const size_t step = 1 + data[0];
  for (size_t at = 0; at < input.size(); at += step) cut.Feed(input.substr(at, step));
  PW_CHECK(whole.state() == cut.state());
  if (whole.state() == AnswerParser::State::kRefused) PW_CHECK(whole.reason() == cut.reason() && !whole.reason().empty());
  if (whole.state() == AnswerParser::State::kComplete) {
    PW_CHECK(whole.answer().status == cut.answer().status && whole.answer().headers == cut.answer().headers);
    PW_CHECK(whole.answer().body == cut.answer().body && whole.answer().body.size() <= kMostBody);
    PW_CHECK(whole.answer().status >= 200 && whole.answer().status <= 999);
  }
  return 0;
}
