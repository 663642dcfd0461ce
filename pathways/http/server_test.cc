#include "pathways/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/tls/testing_tls.h"
#include "pathways/net/tls/tls_channel.h"

namespace pw::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A blocking socket to the server.
class Peer {
 public:
  explicit Peer(const Server& server) {
    const std::vector<std::string> parts = absl::StrSplit(server.address(), ':');
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(parts[2], &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    timeval patience = {.tv_sec = 60};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Peer() { ::close(fd_); }
  int fd() const { return fd_; }

  void Send(std::string_view text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Returns all bytes that arrive until the server closes.
  std::string Rest() {
    std::string all;
    char buffer[4096];
    while (true) {
      const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (got <= 0) return all;
      all.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  int fd_ = -1;
};

// A peer that speaks TLS and trusts one authority.
class SecurePeer {
 public:
  SecurePeer(const Server& server, const net::TestAuthority& authority) : peer_(server), tls_(authority.Client()) {
    channel_ = *net::TlsChannel::Create(peer_.fd(), *tls_, net::TlsChannel::Side::kConnects);
    while (true) {
      last_ = channel_->Handshake();
      if (last_ != net::TlsChannel::Step::kReadable && last_ != net::TlsChannel::Step::kWritable) return;
      Wait(last_ == net::TlsChannel::Step::kReadable ? POLLIN : POLLOUT);
    }
  }
  bool greeted() const { return last_ == net::TlsChannel::Step::kDone; }
  void Send(std::string text) {
    iovec piece = {text.data(), text.size()};
    EXPECT_EQ(channel_->Write(absl::MakeSpan(&piece, 1)), static_cast<ssize_t>(text.size()));
    while (channel_->Flush() == EAGAIN) Wait(POLLOUT);
  }
  std::string Rest() {
    std::string all;
    char buffer[4096];
    while (true) {
      const iovec space = {buffer, sizeof(buffer)};
      const ssize_t got = channel_->Read({&space, 1});
      if (got < 0 && errno == EAGAIN) {
        Wait(POLLIN);
      } else if (got <= 0) {
        return all;
      } else {
        all.append(buffer, static_cast<size_t>(got));
      }
    }
  }

 private:
  void Wait(int16_t what) {
    pollfd poll_fd = {peer_.fd(), what, 0};
    EXPECT_EQ(::poll(&poll_fd, 1, 60'000), 1);
  }
  Peer peer_;
  const std::shared_ptr<net::Tls> tls_;
  std::unique_ptr<net::TlsChannel> channel_;
  net::TlsChannel::Step last_ = net::TlsChannel::Step::kReadable;
};

std::unique_ptr<Server> Started(Server::Handler handler, const Server::Options& options = {}) {
  auto server = Server::Listen("127.0.0.1:0", std::move(handler), options);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

void SayPath(const Request& request, Server::Answer answer) { std::move(answer)({.body = request.path + "\n"}); }

std::string Ask(const Server& server, std::string_view text) {
  Peer peer(server);
  peer.Send(text);
  return peer.Rest();
}

TEST(HttpServer, AnswersAGetAndCloses) {
  const auto server = Started(SayPath);
  const std::string answer = Ask(*server, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 9\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\n/metrics\n"));
}

TEST(HttpServer, AnswersAHeadWithoutTheBody) {
  const auto server = Started(SayPath);
  const std::string answer = Ask(*server, "HEAD /metrics HTTP/1.0\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 9\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\n"));
}

TEST(HttpServer, TheAnswerMayComeLaterAndFromAnotherThread) {
  std::promise<Server::Answer> asked;
  const auto server = Started([&](const Request&, Server::Answer answer) { asked.set_value(std::move(answer)); });
  Peer peer(*server);
  peer.Send("GET / HTTP/1.0\r\n\r\n");
  Server::Answer answer = asked.get_future().get();
  std::thread([&] { std::move(answer)({.status = 503, .body = "not now\n"}); }).join();
  EXPECT_THAT(peer.Rest(), StartsWith("HTTP/1.1 503 "));
}

TEST(HttpServer, AnAnswerAfterTheServersEndIsDropped) {
  std::promise<Server::Answer> asked;
  auto server = Started([&](const Request&, Server::Answer answer) { asked.set_value(std::move(answer)); });
  Peer peer(*server);
  peer.Send("GET / HTTP/1.0\r\n\r\n");
  Server::Answer answer = asked.get_future().get();
  server.reset();
  std::move(answer)({.body = "too late"});
  EXPECT_EQ(peer.Rest(), "");
}

TEST(HttpServer, ALargeAnswerArrivesWhole) {
  const std::string body(8 << 20, 'z');
  const auto server = Started([&](const Request&, Server::Answer answer) { std::move(answer)({.body = body}); });
  const std::string answer = Ask(*server, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, body.size());
}

TEST(HttpServer, WhatIsNoRequestIsRefusedAndTheServerGoesOn) {
  const auto server = Started(SayPath);
  EXPECT_THAT(Ask(*server, "\x16\x03\x01 TLS was here\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(*server, std::string(1 << 16, 'x')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask(*server, "DELETE / HTTP/1.0\r\n\r\n"), HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_THAT(Ask(*server, "GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, AConnectionThatSendsNothingIsClosedInTime) {
  const auto server = Started(SayPath, {.patience = absl::Milliseconds(50)});
  Peer silent(*server), slow(*server);
  slow.Send("GET / HT");
  EXPECT_EQ(silent.Rest(), "");
  EXPECT_EQ(slow.Rest(), "");
}

TEST(HttpServer, ARequestThatIsNeverAnsweredIsClosedInTime) {
  std::vector<Server::Answer> kept;  // used on the server's thread only
  const auto server = Started([&](const Request&, Server::Answer answer) { kept.push_back(std::move(answer)); },
                              {.patience = absl::Milliseconds(50)});
  EXPECT_EQ(Ask(*server, "GET / HTTP/1.0\r\n\r\n"), "");
}

TEST(HttpServer, IdleConnectionsCannotKeepOthersOut) {
  const auto server = Started(SayPath, {.connections = 3, .patience = absl::Minutes(10)});
  std::vector<std::unique_ptr<Peer>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<Peer>(*server));
  EXPECT_THAT(Ask(*server, "GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(idle[0]->Rest(), "");  // closed to make room
}

TEST(HttpServer, OneMoreIsClosedWhereAllAreBeingAnswered) {
  std::mutex mutex;
  std::vector<Server::Answer> kept;
  std::promise<void> full;
  const auto server = Started(
      [&](const Request&, Server::Answer answer) {
        const std::lock_guard lock(mutex);
        kept.push_back(std::move(answer));
        if (kept.size() == 2) full.set_value();
      },
      {.connections = 2, .patience = absl::Minutes(10)});
  Peer first(*server), second(*server);
  first.Send("GET / HTTP/1.0\r\n\r\n");
  second.Send("GET / HTTP/1.0\r\n\r\n");
  full.get_future().wait();
  EXPECT_EQ(Peer(*server).Rest(), "");
  const std::lock_guard lock(mutex);
  std::move(kept[0])({.body = "one"});
  EXPECT_THAT(first.Rest(), HasSubstr("one"));
}

TEST(HttpsServer, AnswersRequestsOfAnySizeAndCloses) {
  const net::TestAuthority cluster;
  const std::string body(3 << 20, 'z');
  const auto server = Started(
      [&](const Request& request, Server::Answer answer) { std::move(answer)({.body = request.path == "/" ? "hello" : body}); },
      {.tls = cluster.OfServer({"localhost"})});
  for (const auto& [path, size] : {std::pair<std::string, size_t>{"/", 5}, {"/large", body.size()}}) {
    SecurePeer peer(*server, cluster);
    ASSERT_TRUE(peer.greeted());
    peer.Send("GET " + path + " HTTP/1.1\r\nHost: a\r\n");
    peer.Send("\r\n");
    const std::string answer = peer.Rest();
    EXPECT_THAT(answer.substr(0, 17), "HTTP/1.1 200 OK\r\n");
    EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, size);
  }
}

TEST(HttpsServer, AlsoShowsACertificateThatNamesAPart) {
  const net::TestAuthority cluster;
  const auto server = Started(SayPath, {.tls = cluster.Of(net::Part::kWorker)});
  SecurePeer peer(*server, cluster);
  peer.Send("GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_THAT(peer.Rest(), HasSubstr("\r\n\r\n/metrics\n"));
}

TEST(HttpsServer, IsNotBelievedByThoseWhoTrustAnother) {
  const net::TestAuthority cluster, another;
  const auto server = Started(SayPath, {.tls = cluster.OfServer({"localhost"})});
  EXPECT_FALSE(SecurePeer(*server, another).greeted());
  SecurePeer peer(*server, cluster);  // the server goes on
  EXPECT_TRUE(peer.greeted());
}

TEST(HttpsServer, APeerThatSpeaksPlainHttpIsToldSoAndGetsNothing) {
  const net::TestAuthority cluster;
  const auto server = Started(SayPath, {.tls = cluster.OfServer({"localhost"})});
  const std::string answer = Ask(*server, "GET /secret HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("https://"));
  EXPECT_THAT(answer, testing::Not(HasSubstr("secret")));
}

TEST(HttpsServer, PeersThatDoNotEndTheHandshakeAreClosedInTimeAndMakeRoom) {
  const net::TestAuthority cluster;
  const auto tls = cluster.OfServer({"localhost"});
  const auto hasty = Started(SayPath, {.patience = absl::Milliseconds(50), .tls = tls});
  Peer silent(*hasty), half(*hasty);
  half.Send("\x16\x03\x01\x02");
  EXPECT_EQ(silent.Rest(), "");
  EXPECT_EQ(half.Rest(), "");
  const auto server = Started(SayPath, {.connections = 3, .patience = absl::Minutes(10), .tls = tls});
  std::vector<std::unique_ptr<Peer>> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(std::make_unique<Peer>(*server));
    if (i % 2 == 0) idle.back()->Send("\x16\x03\x01");
  }
  EXPECT_TRUE(SecurePeer(*server, cluster).greeted());
}

TEST(HttpsServer, NonsenseInsteadOfAHandshakeEndsThatConnectionOnly) {
  const net::TestAuthority cluster;
  const auto server = Started(SayPath, {.tls = cluster.OfServer({"localhost"})});
  EXPECT_THAT(Ask(*server, "\x16" + std::string(1 << 12, '\xff')), testing::Not(HasSubstr("HTTP")));
  SecurePeer peer(*server, cluster);
  peer.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(peer.Rest(), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, AnAddressInUseIsSaid) {
  const auto server = Started(SayPath);
  const auto second = Server::Listen(server->address(), SayPath);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

}  // namespace
}  // namespace pw::http
