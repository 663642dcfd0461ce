#include "pathways/http/request.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace pw::http {
namespace {

using State = RequestParser::State;

int StatusOf(const std::string& text) {
  RequestParser parser;
  const State state = parser.Feed(text);
  return state == State::kRefused ? parser.status() : state == State::kComplete ? 200 : 0;
}

TEST(Request, AGetIsReadWithItsHeaders) {
  RequestParser parser;
  ASSERT_EQ(parser.Feed("GET /metrics?a=b HTTP/1.1\r\nhost: here:9\r\nAuthorization:  Bearer x \r\nAccept: */*\r\n\r\n"),
            State::kComplete);
  EXPECT_EQ(parser.request().method, "GET");
  EXPECT_EQ(parser.request().path, "/metrics");
  EXPECT_EQ(parser.request().query, "a=b");
  EXPECT_EQ(parser.request().host, "here:9");
  EXPECT_EQ(parser.request().authorization, "Bearer x");
}

TEST(Request, OldClientsNeedNotNameAHost) { EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\n\r\n"), 200); }

TEST(Request, AHeadWithoutItsEndIsAwaited) { EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\nAccept: a"), 0); }

TEST(Request, WhatIsNotARequestIsRefusedWithItsStatus) {
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
  EXPECT_EQ(StatusOf("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"), 413);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), 413);
  for (const std::string text :
       {"\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.0\r\n\r\n", "GET http://a/ HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET /\x01 HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nbad header: x\r\n\r\n", "GET / HTTP/1.0\r\nA: b\r\n folded\r\n\r\n",
        "GET / HTTP/1.0\r\n: b\r\n\r\n", "GET / HTTP/1.0\r\nA: b\nB: c\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.0\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", "\x16\x03\x01\x02\x01\r\n\r\n"}) {
    EXPECT_EQ(StatusOf(text), 400) << text;
  }
}

TEST(Request, AHeadThatIsTooLongIsRefusedAtTheLimit) {
  const std::string start = "GET / HTTP/1.0\r\nA: ";
  EXPECT_EQ(StatusOf(start + std::string(kMostHeadBytes - start.size() - 4, 'x') + "\r\n\r\n"), 200);
  EXPECT_EQ(StatusOf(start + std::string(kMostHeadBytes - start.size() - 3, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(StatusOf(std::string(1 << 20, 'x')), 431);
}

TEST(Request, BytesBehindTheHeadChangeNothing) {
  RequestParser parser;
  ASSERT_EQ(parser.Feed("GET /a HTTP/1.0\r\n\r\nGET /b HTTP/1.0\r\n\r\n"), State::kComplete);
  EXPECT_EQ(parser.Feed("POST"), State::kComplete);
  EXPECT_EQ(parser.request().path, "/a");
}

// Text that is nearly a request, so that all branches are reached.
rc::Gen<std::string> NearlyARequest() {
  const auto piece = rc::gen::element<std::string>("GET ", "HEAD ", "PUT ", "/", "/a?b", " ", "HTTP/1.1", "HTTP/1.0", "\r\n",
                                                   "\r\n\r\n", "Host: x", ":", "Content-Length: 0", "Authorization: t", "\n",
                                                   std::string(1, '\0'), std::string(3000, 'y'));
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece), [](const std::vector<std::string>& pieces) {
    std::string text;
    for (const std::string& one : pieces) text += one;
    return text;
  });
}

RC_GTEST_PROP(RequestProperty, CutsMakeNoDifference, ()) {
  const std::string text = *NearlyARequest();
  RequestParser whole, cut;
  whole.Feed(text);
  for (size_t at = 0; at < text.size();) {
    const size_t step = *rc::gen::inRange<size_t>(1, 40);
    cut.Feed(absl::string_view(text).substr(at, step));
    at += step;
  }
  RC_ASSERT(whole.state() == cut.state());
  if (whole.state() == State::kRefused) RC_ASSERT(whole.status() == cut.status());
  if (whole.state() == State::kComplete) RC_ASSERT(whole.request().path == cut.request().path);
}

}  // namespace
}  // namespace pw::http
