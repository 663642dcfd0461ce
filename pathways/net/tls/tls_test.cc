// TLS between transports: trust between peers, and limits for strangers. conformance_test.cc tests the contract of all
// transports, over TLS too.
#include "pathways/net/tls/tls.h"

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/framing.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/testing.h"
#include "pathways/net/tls/testing_tls.h"
#include "pathways/net/tls/tls_channel.h"

namespace pw::net {
namespace {

using ::testing::HasSubstr;
using ConnectResult = absl::StatusOr<std::unique_ptr<Connection>>;

// A transport that listens, and the connection that it has accepted.
class Server {
 public:
  explicit Server(std::shared_ptr<Tls> tls, AsioOptions options = {}) : transport_(With(std::move(options), std::move(tls))) {
    listener_ = *transport_.Listen("tcp:127.0.0.1:0", [this](std::unique_ptr<Connection> c) { accepted.Put(std::move(c)); });
  }
  const std::string& address() const { return listener_->address(); }
  static AsioOptions With(AsioOptions options, std::shared_ptr<Tls> tls) {
    options.tls = std::move(tls);
    return options;
  }
  Mailbox<std::unique_ptr<Connection>> accepted;

 private:
  AsioTransport transport_;
  std::unique_ptr<Listener> listener_;
};

class Client {
 public:
  explicit Client(std::shared_ptr<Tls> tls) : transport_(Server::With({.retry_connects = false}, std::move(tls))) {}
  ConnectResult Connect(const std::string& address) {
    Mailbox<ConnectResult> done;
    transport_.Connect(address, absl::Seconds(60), [&](ConnectResult c) { done.Put(std::move(c)); });
    return done.Take();
  }

 private:
  AsioTransport transport_;
};

// A peer that speaks no TLS.
class RawSocket {
 public:
  explicit RawSocket(const std::string& address) {
    const SocketAddress where = WithoutLookup(*ParseAddress(address));
    fd_ = Fd(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd_.get(), where.get(), where.size), 0);
  }
  // Returns the number of these bytes that the other side took before it closed.
  size_t Write(const std::string& bytes) {
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t n = ::send(fd_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    return at;
  }
  bool ReadsEnd() {
    char scratch[4096];
    while (true) {
      pollfd poll_fd = {fd_.get(), POLLIN, 0};
      if (::poll(&poll_fd, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) return false;
      if (::read(fd_.get(), scratch, sizeof(scratch)) <= 0) return true;
    }
  }

 private:
  Fd fd_;
};

TEST(TlsTest, BothSidesLearnWhatTheOtherHasProven) {
  const TestAuthority cluster;
  Server controller(cluster.Of(Part::kController)), worker(cluster.Of(Part::kWorker));
  const auto check = [](Server& server, std::shared_ptr<Tls> tls, PeerProof of_server, PeerProof of_client) {
    Client client(std::move(tls));
    ConnectResult connected = client.Connect(server.address());
    ASSERT_TRUE(connected.ok()) << connected.status();
    EXPECT_EQ((*connected)->proof(), of_server);
    EXPECT_EQ(server.accepted.Take()->proof(), of_client);
    EXPECT_EQ(CheckServer(**connected, PeerProof::kController).ok(), of_server == PeerProof::kController);
    EXPECT_EQ(CheckServer(**connected, PeerProof::kWorker).ok(), of_server == PeerProof::kWorker);
  };
  check(controller, cluster.Client(), PeerProof::kController, PeerProof::kStranger);
  check(worker, cluster.Client(), PeerProof::kWorker, PeerProof::kStranger);
  check(controller, cluster.Of(Part::kWorker), PeerProof::kController, PeerProof::kWorker);
  check(worker, cluster.Of(Part::kWorker), PeerProof::kWorker, PeerProof::kWorker);
}

TEST(TlsTest, AServerOfAnotherClusterIsRefused) {
  const TestAuthority ours, theirs;
  Server server(theirs.Of(Part::kController));
  const ConnectResult connected = Client(ours.Client()).Connect(server.address());
  EXPECT_TRUE(absl::IsUnauthenticated(connected.status())) << connected.status();
  EXPECT_THAT(connected.status().message(), HasSubstr("not of the cluster's authority"));
}

TEST(TlsTest, AServerOfSomethingElseIsNamedAsSuch) {
  const TestAuthority cluster;
  const Fd listening = *ListenSocket(*ParseAddress("127.0.0.1:0"));
  const std::string address = ToString(FromSocketAddress(LocalAddress(listening.get())));
  std::thread other([&] {
    pollfd poll_fd = {listening.get(), POLLIN, 0};
    ::poll(&poll_fd, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
    const Fd accepted(::accept(listening.get(), nullptr, nullptr));
    const std::string words = "220 mail.example.com ESMTP ready\r\n";
    EXPECT_EQ(::send(accepted.get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
    char scratch[4096];
    while (::read(accepted.get(), scratch, sizeof(scratch)) > 0) {
    }
  });
  const ConnectResult connected = Client(cluster.Client()).Connect(address);
  other.join();
  EXPECT_TRUE(absl::IsUnauthenticated(connected.status())) << connected.status();
  EXPECT_THAT(connected.status().message(), HasSubstr("does not speak TLS"));
}

TEST(TlsTest, AServerWhoseCertificateHasEndedIsRefused) {
  const TestAuthority cluster;
  Server server(cluster.Of(Part::kController, absl::Now() - absl::Hours(2), absl::Hours(1)));
  const ConnectResult connected = Client(cluster.Client()).Connect(server.address());
  EXPECT_TRUE(absl::IsUnauthenticated(connected.status())) << connected.status();
  EXPECT_THAT(connected.status().message(), HasSubstr("expired"));
}

// A controller's certificate serves a server only.
TEST(TlsTest, AClientWithACertificateForServersIsRefused) {
  const TestAuthority cluster;
  Server server(cluster.Of(Part::kWorker));
  Client client(cluster.Of(Part::kController));
  ConnectResult connected = client.Connect(server.address());
  if (!connected.ok()) return;
  Recorder recorder;
  (*connected)->Start(&recorder);
  EXPECT_FALSE(recorder.WaitClosed().ok());
}

TEST(TlsTest, AClientOfAnotherClusterIsRefused) {
  const TestAuthority ours, theirs;
  Server server(ours.Of(Part::kWorker));
  // Trusts our authority, but shows a certificate of another one.
  std::shared_ptr<Tls> tls = ours.Client();
  theirs.Show(tls.get(), Part::kWorker);
  Client client(tls);
  ConnectResult connected = client.Connect(server.address());
  if (!connected.ok()) return;
  Recorder recorder;
  (*connected)->Start(&recorder);
  EXPECT_FALSE(recorder.WaitClosed().ok());
}

TEST(TlsTest, ACertificateIsReplacedWhileConnectionsLive) {
  const TestAuthority cluster;
  const std::shared_ptr<Tls> shown = cluster.Of(Part::kWorker);
  Server server(shown);
  Client client(cluster.Client());
  ConnectResult first = client.Connect(server.address());
  ASSERT_TRUE(first.ok());
  const auto at_server = server.accepted.Take();
  cluster.Show(shown.get(), Part::kController);
  ConnectResult second = client.Connect(server.address());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->proof(), PeerProof::kController);
  Recorder client_hears, server_hears;
  (*first)->Start(&client_hears);
  at_server->Start(&server_hears);
  (*first)->Send("still here");
  EXPECT_EQ(server_hears.WaitFrames(1)[0].header, "still here");
}

TEST(TlsTest, AClientOfAPlainServerSaysSoAndOneWithoutTlsIsRefused) {
  const TestAuthority cluster;
  Server plain(nullptr), safe(cluster.Of(Part::kController), {.handshake_limit = absl::Milliseconds(200)});
  Client with_tls(cluster.Client()), without(nullptr);
  Recorder at_server, at_client;
  // The plain server reads a greeting that is no frame, and closes.
  std::unique_ptr<Connection> accepted;
  std::thread server([&] {
    accepted = plain.accepted.Take();
    accepted->Start(&at_server);
  });
  const ConnectResult refused = with_tls.Connect(plain.address());
  EXPECT_FALSE(refused.ok());
  server.join();
  EXPECT_THAT(at_server.WaitClosed().message(), HasSubstr("not a frame of ours"));
  ConnectResult connected = without.Connect(safe.address());
  ASSERT_TRUE(connected.ok()) << "TCP itself connects";
  (*connected)->Start(&at_client);
  (*connected)->Send("hello");
  EXPECT_FALSE(at_client.WaitClosed().ok());
}

// ---- strangers

TEST(TlsTest, APeerThatSaysNothingIsDroppedInTime) {
  const TestAuthority cluster;
  Server server(cluster.Of(Part::kController), {.handshake_limit = absl::Milliseconds(100)});
  EXPECT_TRUE(RawSocket(server.address()).ReadsEnd());
}

TEST(TlsTest, IdlePeersDoNotKeepOthersOut) {
  const TestAuthority cluster;
  Server server(cluster.Of(Part::kController), {.handshake_limit = absl::Hours(1), .most_handshakes = 8});
  std::vector<std::unique_ptr<RawSocket>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<RawSocket>(server.address()));
  Client client(cluster.Client());
  const ConnectResult connected = client.Connect(server.address());
  EXPECT_TRUE(connected.ok()) << connected.status();
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(idle[i]->ReadsEnd()) << i;  // the oldest have gone
}

TEST(TlsTest, APeerThatTalksWithoutEndIsCutOff) {
  const TestAuthority cluster;
  Server server(cluster.Of(Part::kController), {.handshake_limit = absl::Hours(1)});
  // A record that announces a greeting of 16 MiB, and goes on with it.
  std::string record("\x16\x03\x01\x40\x00\x01\xff\xff\xff", 9);
  record.resize(5 + (16 << 10), 'x');
  for (const std::string& bytes : {record, std::string(64 << 10, 'a'), std::string("GET / HTTP/1.1\r\n\r\n")}) {
    RawSocket stranger(server.address());
    stranger.Write(bytes);
    EXPECT_TRUE(stranger.ReadsEnd());
  }
}

TEST(TlsTest, WhatStrangersSendAtRandomHarmsNobody) {
  const TestAuthority cluster;
  Server server(cluster.Of(Part::kController), {.handshake_limit = absl::Seconds(1)});
  uint64_t state = 1;
  for (int round = 0; round < 50; ++round) {
    std::string bytes(1 + round * 37, '\0');
    for (char& c : bytes) c = static_cast<char>((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
    if (round % 2 == 0) bytes.replace(0, 3, std::string("\x16\x03\x01", 3));  // begins as a greeting does
    RawSocket stranger(server.address());
    stranger.Write(bytes);
  }
  EXPECT_TRUE(Client(cluster.Client()).Connect(server.address()).ok());
}

// ---- the channel itself

class Channels {
 public:
  explicit Channels(size_t rekey_bytes) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds_), 0);
    const TestAuthority cluster;
    a_tls_ = cluster.Client();
    b_tls_ = cluster.Of(Part::kController);
    a = *TlsChannel::Create(fds_[0], *a_tls_, TlsChannel::Side::kConnects, rekey_bytes);
    b = *TlsChannel::Create(fds_[1], *b_tls_, TlsChannel::Side::kAccepts, rekey_bytes);
    bool a_done = false, b_done = false;
    for (int i = 0; i < 100 && !(a_done && b_done); ++i) {
      a_done = a_done || a->Handshake() == TlsChannel::Step::kDone;
      b_done = b_done || b->Handshake() == TlsChannel::Step::kDone;
    }
    EXPECT_TRUE(a_done && b_done);
  }
  ~Channels() {
    a = nullptr;
    b = nullptr;
    for (int fd : fds_) ::close(fd);
  }
  int a_fd() const { return fds_[0]; }
  std::unique_ptr<TlsChannel> a, b;

 private:
  int fds_[2];
  std::shared_ptr<Tls> a_tls_, b_tls_;
};

// Sends `data` in pieces of these sizes, and returns the bytes that arrive.
std::string Pass(TlsChannel& from, TlsChannel& to, const std::string& data, const std::vector<size_t>& sizes) {
  std::vector<iovec> pieces;
  for (size_t at = 0, i = 0; at < data.size(); ++i) {
    const size_t size = std::min(sizes[i % sizes.size()], data.size() - at);
    pieces.push_back({const_cast<char*>(data.data()) + at, size});
    at += size;
  }
  std::string arrived(data.size() + 1, '\0');
  size_t got = 0, next = 0;
  for (int idle = 0; idle < 1000 && got < data.size(); ++idle) {
    if (next < pieces.size()) {
      ssize_t n = from.Write(absl::MakeSpan(pieces).subspan(next));
      for (; n > 0 && static_cast<size_t>(n) >= pieces[next].iov_len; ++next) n -= static_cast<ssize_t>(pieces[next].iov_len);
      if (n > 0) pieces[next] = {static_cast<char*>(pieces[next].iov_base) + n, pieces[next].iov_len - static_cast<size_t>(n)};
    }
    from.Flush();
    const iovec space[] = {
        {arrived.data() + got, (arrived.size() - got) / 2},
        {arrived.data() + got + (arrived.size() - got) / 2, arrived.size() - got - (arrived.size() - got) / 2}};
    if (const ssize_t n = to.Read(space); n > 0) {
      got += static_cast<size_t>(n);
      idle = 0;
    }
  }
  arrived.resize(got);
  return arrived;
}

TEST(TlsChannelTest, BytesOfAnySizesArriveInOrderWhileKeysChange) {
  for (size_t rekey : {size_t{1} << 40, size_t{50'000}}) {
    Channels channels(rekey);
    for (const std::vector<size_t>& sizes : {std::vector<size_t>{1, 0, 7}, {100, 40'000}, {16'384}, {16'385, 3}, {1'000'000}}) {
      const Bytes data = Pattern(sizes[0] == 1 ? 5'000 : 1'000'000, static_cast<uint8_t>(sizes[0]));
      const std::string text(data.view());
      EXPECT_TRUE(Pass(*channels.a, *channels.b, text, sizes) == text);
      EXPECT_TRUE(Pass(*channels.b, *channels.a, text, sizes) == text);
    }
  }
}

TEST(TlsChannelTest, WhatWasAlteredOnTheWayIsNotRead) {
  Channels channels(size_t{1} << 40);
  std::string record("\x17\x03\x03\x00\x20", 5);
  record.append(32, 'x');
  ASSERT_EQ(::write(channels.a_fd(), record.data(), record.size()), static_cast<ssize_t>(record.size()));
  char space[100];
  const iovec into[] = {{space, sizeof(space)}};
  EXPECT_EQ(channels.b->Read(into), -1);
  EXPECT_EQ(errno, EBADMSG);
  EXPECT_EQ(channels.b->Read(into), -1) << "and never again";
}

TEST(TlsChannelTest, AGoodbyeIsTheEndOfTheStream) {
  Channels channels(size_t{1} << 40);
  channels.a->SayGoodbye();
  char space[100];
  const iovec into[] = {{space, sizeof(space)}};
  EXPECT_EQ(channels.b->Read(into), 0);
}

TEST(TlsTest, ATlsForVisitorsConnectsToNobody) {
  const TestAuthority cluster;
  const std::shared_ptr<Tls> tls = *Tls::ForVisitors();
  cluster.Show(tls.get(), Part::kController);
  EXPECT_TRUE(absl::IsInternal(TlsChannel::Create(-1, *tls, TlsChannel::Side::kConnects).status()));
}

TEST(TlsTest, TheEndOfTheShownCertificateIsKnown) {
  const TestAuthority cluster;
  const std::shared_ptr<Tls> tls = cluster.Client();
  EXPECT_EQ(tls->shown_until(), absl::InfiniteFuture());
  const absl::Time from = absl::FromUnixSeconds(1'800'000'000);
  cluster.Show(tls.get(), Part::kWorker, from, absl::Hours(5));
  EXPECT_EQ(tls->shown_until(), from + absl::Hours(5));
}

TEST(TlsTest, FingerprintsHaveOneForm) {
  const std::string fingerprint = TestAuthority().fingerprint();
  EXPECT_EQ(*ParseFingerprint(FingerprintText(fingerprint)), fingerprint);
  for (const char* text : {"", "sha256:", "sha256:00", "md5:00"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseFingerprint(text).status())) << text;
  EXPECT_FALSE(Tls::Create("short").ok());
}

}  // namespace
}  // namespace pw::net
