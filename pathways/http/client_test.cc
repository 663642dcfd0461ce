#include "pathways/http/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/sockets/socket.h"

namespace pw::http {
namespace {

using ::testing::HasSubstr;

// Takes one connection, reads a request until its body is there, and sends `answer`.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer, size_t body_bytes = 0)
      : answer_(std::move(answer)), body_bytes_(body_bytes), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~OneAnswer() { thread_.join(); }

  Endpoint endpoint() const { return {"127.0.0.1", port_, false}; }
  // Returns the request. REQUIRES: it was answered.
  std::string request() {
    thread_.join();
    thread_ = std::thread([] {});
    return request_;
  }

 private:
  void Serve() {
    pollfd waits = {listener_.get(), POLLIN, 0};
    if (::poll(&waits, 1, 10'000) != 1) return;
    const net::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char piece[4096];
    size_t end = std::string::npos;
    while (end == std::string::npos || request_.size() < end + 4 + body_bytes_) {
      const ssize_t n = ::recv(connection.get(), piece, sizeof(piece), 0);
      if (n <= 0) return;
      request_.append(piece, static_cast<size_t>(n));
      end = request_.find("\r\n\r\n");
    }
    ::send(connection.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
    if (answer_.empty()) ::recv(connection.get(), piece, sizeof(piece), 0);  // until the client gives up
  }

  const std::string answer_;
  const size_t body_bytes_;
  const net::Fd listener_;
  std::string port_, request_;
  std::thread thread_;
};

TEST(AskTest, ARequestIsSentWithItsBodyAndItsAnswerIsRead) {
  const std::string body(1 << 20, 'x');
  OneAnswer server("HTTP/1.1 201 Created\r\nETag: e\r\nContent-Length: 2\r\n\r\nok", body.size());
  const auto answer = Ask(server.endpoint(), {"PUT", "/b/k?x=1", {{"if-none-match", "*"}}, Bytes::Copy(body)}, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->header("etag"), "e");
  EXPECT_EQ(answer->body, "ok");
  const std::string request = server.request();
  EXPECT_TRUE(absl::StartsWith(request, absl::StrCat("PUT /b/k?x=1 HTTP/1.1\r\nHost: ", server.endpoint().HostHeader(), "\r\n")))
      << request.substr(0, 99);
  EXPECT_THAT(request.substr(0, 200), HasSubstr("if-none-match: *\r\nContent-Length: 1048576\r\nConnection: close\r\n\r\n"));
  EXPECT_TRUE(absl::EndsWith(request, body));
}

TEST(AskTest, AServerThatRefusesBeforeItHasReadAllIsHeard) {
  OneAnswer server("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  const auto answer = Ask(server.endpoint(), {"PUT", "/", {}, Bytes::Copy("a small body")}, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 403);
}

TEST(AskTest, AnAnswerToHeadHasNoBody) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  const auto answer = Ask(server.endpoint(), {"HEAD", "/"}, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->header("content-length"), "1000");
}

TEST(AskTest, WhatGoesWrongIsSaid) {
  const auto why = [](const std::string& answer, const AskOptions& options = {}) {
    const OneAnswer server(answer);
    const auto got = Ask(server.endpoint(), {"GET", "/"}, options);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kUnavailable) << got.status();
    return std::string(got.status().message());
  };
  EXPECT_EQ(why("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"), "it closed the connection before its answer was whole");
  EXPECT_EQ(why("nonsense\r\n\r\n"), "it does not speak HTTP/1");
  AskOptions impatient;
  impatient.silence = absl::Milliseconds(50);
  EXPECT_EQ(why("", impatient), "it did not answer in time");
  AskOptions short_limit;
  short_limit.limit = absl::Milliseconds(50);
  EXPECT_EQ(why("", short_limit), "it did not answer in time");
}

TEST(AskTest, ANameThatIsNoneOrAClosedPortIsUnavailable) {
  EXPECT_THAT(std::string(Ask({"no-such-host.invalid", "80", false}, {"GET", "/"}, {}).status().message()),
              HasSubstr("its name is not known"));
  Endpoint closed;
  {
    const net::Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ASSERT_EQ(::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    closed = {"127.0.0.1", std::to_string(ntohs(address.sin_port)), false};
  }
  EXPECT_THAT(std::string(Ask(closed, {"GET", "/"}, {}).status().message()), HasSubstr("it does not listen"));
}

TEST(EndpointTest, AddressesAreParsed) {
  const auto text = [](const std::string& url) {
    const auto endpoint = ParseEndpoint(url);
    return endpoint.ok() ? absl::StrCat(endpoint->tls ? "tls " : "plain ", endpoint->HostHeader(), " at ", endpoint->port)
                         : "refused";
  };
  EXPECT_EQ(text("https://s3.amazonaws.com"), "tls s3.amazonaws.com at 443");
  EXPECT_EQ(text("https://s3.amazonaws.com:443/"), "tls s3.amazonaws.com at 443");
  EXPECT_EQ(text("http://minio:9000"), "plain minio:9000 at 9000");
  EXPECT_EQ(text("http://[::1]:9000"), "plain [::1]:9000 at 9000");
  for (const std::string bad : {"", "minio:9000", "ftp://minio", "http://", "http://minio:0", "http://minio:x",
                                "http://minio/path", "http://a b", "http://user@minio", "https://minio\r\n"})
    EXPECT_EQ(text(bad), "refused") << bad;
}

}  // namespace
}  // namespace pw::http
