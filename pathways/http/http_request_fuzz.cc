// Fuzzes the parser of HTTP requests with any bytes. The first byte selects the cuts: the outcome must not depend on them.
#include <cstdint>

#include "absl/strings/string_view.h"
#include "pathways/base/log.h"
#include "pathways/http/request.h"

using pw::http::RequestParser;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  RequestParser whole, cut;
  whole.Feed(input);
  const size_t step = 1 + data[0];
  for (size_t at = 0; at < input.size(); at += step) cut.Feed(input.substr(at, step));
  PW_CHECK(whole.state() == cut.state());
  if (whole.state() == RequestParser::State::kRefused)
    PW_CHECK(whole.status() == cut.status() && whole.status() >= 400 && !whole.reason().empty());
  if (whole.state() == RequestParser::State::kComplete) {
    const pw::http::Request &one = whole.request(), &other = cut.request();
    PW_CHECK(one.path == other.path && one.query == other.query && one.authorization == other.authorization &&
             one.host == other.host);
    PW_CHECK(one.path[0] == '/' && (one.method == "GET" || one.method == "HEAD"));
  }
  return 0;
}
