#include "pathways/http/answer.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace pw::http {
namespace {

using AnswerState = AnswerParser::State;

// Returns the body; for an answer that is not complete "more", or the reason why it is refused.
std::string BodyOf(const std::string& text, size_t most = 100, bool has_body = true) {
  AnswerParser parser(most, has_body);
  const AnswerState state = parser.Feed(text);
  return state == AnswerState::kComplete ? parser.answer().body : state == AnswerState::kMore ? "more" : parser.reason();
}

TEST(Answer, StatusHeadersAndBodyAreRead) {
  AnswerParser parser(100);
  ASSERT_EQ(parser.Feed("HTTP/1.1 404 Not Found\r\nETag:  \"x\" \r\ncontent-length: 3\r\n\r\nabc"), AnswerState::kComplete);
  EXPECT_EQ(parser.answer().status, 404);
  EXPECT_EQ(parser.answer().header("etag"), "\"x\"");
  EXPECT_EQ(parser.answer().header("other"), "");
  EXPECT_EQ(parser.answer().body, "abc");
  EXPECT_EQ(parser.Feed("more"), AnswerState::kComplete);
  EXPECT_EQ(parser.answer().body, "abc");
}

TEST(Answer, ChunksAreJoined) {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
  EXPECT_EQ(BodyOf(head + "3\r\nabc\r\n0A;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"), "abc0123456789");
  EXPECT_EQ(BodyOf(head + "0\r\n\r\n"), "");
  EXPECT_EQ(BodyOf(head + "3\r\nabc\r\n"), "more");
  EXPECT_EQ(BodyOf(head + "3\r\nabcd\r\n"), "a chunk of its answer is longer than it says");
  for (const std::string size : {"", "-1", "x", "0x3", "fffffffffffffffff"})
    EXPECT_EQ(BodyOf(absl::StrCat(head, size, "\r\n")), "it sends a chunk without a size") << size;
  EXPECT_EQ(BodyOf(head + "65\r\n"), "its answer has more than the 100 bytes that were expected");
  EXPECT_EQ(BodyOf(head + "64\r\n" + std::string(100, 'x') + "\r\n1\r\n"),
            "its answer has more than the 100 bytes that were expected");
  std::string trailers = head + "0\r\n";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&trailers, "a: ", std::string(50, 'x'), "\r\n");
  EXPECT_EQ(BodyOf(trailers), "it sends too many headers behind its answer");
}

TEST(Answer, AnAnswerWithoutAnAnnouncedEndIsNeverComplete) {
  EXPECT_EQ(BodyOf("HTTP/1.1 200 OK\r\n\r\n"), "it does not say how long its answer is");
  EXPECT_EQ(BodyOf("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"), "more");
  EXPECT_EQ(BodyOf("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd"), "it announces two lengths");
  EXPECT_EQ(BodyOf("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"),
            "it sends its answer in an unknown way, 'chunked'");
  for (const std::string length : {"-1", "+4", "4 4", "0x4", "99999999999999999999", "4,4"})
    EXPECT_EQ(BodyOf(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", length, "\r\n\r\nabcd")),
              "it does not say how long its answer is");
}

TEST(Answer, SomeAnswersHaveNoBody) {
  EXPECT_EQ(BodyOf("HTTP/1.1 204 No Content\r\n\r\n"), "");
  EXPECT_EQ(BodyOf("HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n", 100, false), "");
  EXPECT_EQ(BodyOf("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"), "a");
  EXPECT_EQ(BodyOf("HTTP/1.1 101 Switching\r\n\r\n"), "it changes to another protocol");
}

TEST(Answer, SizesAreCheckedBeforeMemoryIsTaken) {
  EXPECT_EQ(BodyOf("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n"), "its answer has 101 bytes; at most 100 were expected");
  EXPECT_EQ(BodyOf(std::string(1 << 20, 'x')), absl::StrCat("its head has more than ", kMostAnswerHeadBytes, " bytes"));
}

TEST(Answer, WhatIsNoAnswerIsRefused) {
  for (const std::string text : {"\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
                                 "HTTP/1.1 099 OK\r\n\r\n", "x\r\n\r\n"})
    EXPECT_EQ(BodyOf(text), "it does not speak HTTP/1") << text;
  for (const std::string header : {"no colon", ": b", "a b: c", " folded: x", "a: b\nc: d"})
    EXPECT_EQ(BodyOf(absl::StrCat("HTTP/1.1 204 OK\r\n", header, "\r\n\r\n")), "it sends a header that is none") << header;
}

RC_GTEST_PROP(AnswerProperty, TheOutcomeDoesNotDependOnTheCuts, ()) {
  const std::string body = *rc::gen::container<std::string>(rc::gen::inRange('a', 'z'));
  std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", joined;
  for (size_t at = 0; at < body.size(); at += 7) {
    const std::string piece = body.substr(at, 7);
    absl::StrAppend(&text, piece.size(), "\r\n", piece, "\r\n");
  }
  absl::StrAppend(&text, "0\r\n\r\n");
  AnswerParser parser(1 << 20);
  for (size_t at = 0; at < text.size();) {
    const size_t size = *rc::gen::inRange<size_t>(1, 20);
    parser.Feed(absl::string_view(text).substr(at, size));
    at += size;
  }
  RC_ASSERT(parser.state() == AnswerState::kComplete);
  RC_ASSERT(parser.answer().body == body);
}

}  // namespace
}  // namespace pw::http
