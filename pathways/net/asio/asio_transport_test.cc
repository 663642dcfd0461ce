// Behaviour of real sockets only: peers that are not ours, peers that die, files left behind.
#include "pathways/net/asio/asio_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/few_files.h"
#include "pathways/net/framing.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/testing.h"

extern char** environ;

namespace pw::net {
namespace {

using ::testing::HasSubstr;
using ConnectResult = absl::StatusOr<std::unique_ptr<Connection>>;

// A peer that sends raw bytes instead of frames.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) {
    const SocketAddress where = WithoutLookup(*ParseAddress(address));
    fd_ = Fd(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd_.get(), where.get(), where.size), 0);
  }
  int fd() const { return fd_.get(); }
  void Write(const std::string& bytes) {
    // The other side may close in the middle.
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(fd_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += static_cast<size_t>(n);
    }
  }
  // Returns true once the other side has closed.
  bool ReadsEnd() {
    char scratch[4096];
    while (true) {
      pollfd poll_fd = {fd_.get(), POLLIN, 0};
      if (::poll(&poll_fd, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) return false;
      if (::read(fd_.get(), scratch, sizeof(scratch)) <= 0) return true;
    }
  }
  void Reset() {  // as when a process with unread data is killed
    const linger hard = {1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    Disconnect();
  }
  void Disconnect() { fd_ = Fd(); }

 private:
  Fd fd_;
};

std::string Prefix(uint32_t header, uint64_t payload) {
  std::string out(kPrefixBytes, '\0');
  EncodePrefix({header, payload}, reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

class AsioTransportTest : public ::testing::TestWithParam<bool> {
 protected:
  static std::string NewAddress() {
    static int counter = 0;
    return GetParam() ? absl::StrCat("unix:", ::testing::TempDir(), "pw_asio_test_", ::getpid(), "_", counter++)
                      : "tcp:127.0.0.1:0";
  }
  void SetUp() override {
    auto listener = transport_->Listen(NewAddress(), [this](std::unique_ptr<Connection> c) { accepted_.Put(std::move(c)); });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  // Declared before the transport: callbacks refer to it.
  Mailbox<std::unique_ptr<Connection>> accepted_;
  std::unique_ptr<AsioTransport> transport_ = std::make_unique<AsioTransport>();
  std::unique_ptr<Listener> listener_;
};

TEST_P(AsioTransportTest, GarbageClosesThatConnectionAndNoOther) {
  Recorder good_recorder;
  RawPeer good_peer(listener_->address());
  auto good = accepted_.Take();
  good->Start(&good_recorder);

  Recorder recorder;
  RawPeer peer(listener_->address());
  auto connection = accepted_.Take();
  connection->Start(&recorder);
  peer.Write("GET / HTTP/1.1\r\nHost: example\r\n\r\n");
  const absl::Status status = recorder.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("not a frame of ours"));
  EXPECT_THAT(status.message(), HasSubstr(connection->peer()));
  EXPECT_TRUE(peer.ReadsEnd());

  good_peer.Write(Prefix(4, 0) + "good");
  EXPECT_EQ(good_recorder.WaitFrames(1)[0].header, "good");
}

TEST_P(AsioTransportTest, RandomBytesNeverHurt) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    Recorder recorder;
    RawPeer peer(listener_->address());
    auto connection = accepted_.Take();
    connection->Start(&recorder);
    std::string bytes = round % 2 == 0 ? "" : Prefix(random() % 100, random() % 3000);
    for (int i = random() % 5000; i > 0; --i) bytes.push_back(static_cast<char>(random()));
    peer.Write(bytes);
    peer.Disconnect();
    EXPECT_FALSE(recorder.WaitClosed().ok());
  }
}

TEST_P(AsioTransportTest, AnAnnouncedLengthTakesNoMemoryBeforeTheLimitIsChecked) {
  Recorder recorder;
  RawPeer peer(listener_->address());
  auto connection = accepted_.Take();
  connection->Start(&recorder);
  peer.Write(Prefix(8, 0xFFFFFFFFFFFFFFFF));
  EXPECT_THAT(recorder.WaitClosed().message(), HasSubstr("18446744073709551615"));
}

TEST_P(AsioTransportTest, APeerThatStopsInTheMiddleOfAFrameIsNamed) {
  for (const std::string& part :
       {Prefix(4, 4).substr(0, 7), Prefix(4, 4) + "he", Prefix(4, 4) + "headpa", Prefix(70000, 4) + "he"}) {
    Recorder recorder;
    RawPeer peer(listener_->address());
    auto connection = accepted_.Take();
    connection->Start(&recorder);
    peer.Write(part);
    peer.Disconnect();
    const absl::Status status = recorder.WaitClosed();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("in the middle of a frame"));
  }
}

TEST_P(AsioTransportTest, AHalfOpenConnectionIsClosed) {
  Recorder recorder;
  RawPeer peer(listener_->address());
  auto connection = accepted_.Take();
  connection->Start(&recorder);
  peer.Write(Prefix(4, 0) + "last");
  ::shutdown(peer.fd(), SHUT_WR);
  EXPECT_THAT(recorder.WaitClosed().message(), HasSubstr("was closed by the peer"));
  EXPECT_EQ(recorder.frames().size(), 1u);
  EXPECT_TRUE(peer.ReadsEnd());
}

TEST_P(AsioTransportTest, AResetWhileWeSendIsReportedOnce) {
  Recorder recorder;
  RawPeer peer(listener_->address());
  auto connection = accepted_.Take();
  connection->Start(&recorder);
  const Bytes megabyte = Pattern(1 << 20, 1);
  for (int i = 0; i < 30; ++i) connection->Send("", {megabyte}, Lane::kBulk);
  peer.Reset();
  const absl::Status status = recorder.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(connection->peer()));
}

TEST_P(AsioTransportTest, SendingToAPeerThatIsGoneBeforeStartIsReportedAtStart) {
  RawPeer peer(listener_->address());
  auto connection = accepted_.Take();
  peer.Reset();
  const Bytes megabyte = Pattern(1 << 20, 1);
  for (int i = 0; i < 30; ++i) connection->Send("", {megabyte}, Lane::kBulk);
  Recorder recorder;
  connection->Start(&recorder);
  EXPECT_EQ(recorder.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(AsioTransportTest, APeerThatNeverReadsDoesNotHoldUpTheEnd) {
  Recorder recorder;
  RawPeer peer(listener_->address());
  auto connection = accepted_.Take();
  connection->Start(&recorder);
  const Bytes megabyte = Pattern(1 << 20, 1);
  for (int i = 0; i < 30; ++i) connection->Send("", {megabyte}, Lane::kUrgent);
  connection->Close(absl::AbortedError("enough"));
  EXPECT_EQ(recorder.WaitClosed(), absl::AbortedError("enough"));
  connection.reset();
  transport_.reset();
}

TEST_P(AsioTransportTest, CloseWhileOtherThreadsSendIsSafe) {
  for (int round = 0; round < 30; ++round) {
    Recorder at_client, at_server;
    Mailbox<ConnectResult> connected;
    transport_->Connect(listener_->address(), absl::Seconds(30), [&](ConnectResult c) { connected.Put(std::move(c)); });
    auto server = accepted_.Take();
    auto client = *connected.Take();
    client->Start(&at_client);
    server->Start(&at_server);
    std::vector<std::thread> senders;
    for (int t = 0; t < 3; ++t) {
      senders.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) client->Send("frame", {Pattern(100 * t, t)}, t == 0 ? Lane::kUrgent : Lane::kBulk);
      });
    }
    at_server.WaitFrames(1 + round * 10);
    (round % 2 == 0 ? client : server)->Close(absl::AbortedError("enough"));
    for (std::thread& sender : senders) sender.join();
    EXPECT_FALSE(at_client.WaitClosed().ok());
    EXPECT_FALSE(at_server.WaitClosed().ok());
  }
}

TEST_P(AsioTransportTest, WithoutDescriptorsConnectionsWaitAndTheLogSaysSoOnce) {
  ::testing::internal::CaptureStderr();
  auto few = std::make_unique<FewFiles>(1);
  RawPeer late(listener_->address());  // takes the last descriptor
  pollfd nothing = {late.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&nothing, 1, 350), 0);
  few = nullptr;
  accepted_.Take();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t said = log.find("connections wait at ");
  EXPECT_NE(said, std::string::npos) << log;
  EXPECT_EQ(log.find("connections wait at ", said + 1), std::string::npos) << log;
}

INSTANTIATE_TEST_SUITE_P(Asio, AsioTransportTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Unix" : "Tcp"; });

TEST(AsioTcpTest, AKilledPeerIsNoticedAtOnce) {
  Mailbox<std::unique_ptr<Connection>> accepted;
  AsioTransport transport;
  auto listener = transport.Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> c) { accepted.Put(std::move(c)); });
  ASSERT_TRUE(listener.ok());
  const Address address = *ParseAddress((*listener)->address());
  const std::string script = absl::StrCat("exec 3<>/dev/tcp/127.0.0.1/", address.port, "; read line <&3");
  std::string words[] = {"bash", "-c", script};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawnp(&pid, "bash", nullptr, nullptr, argv, environ), 0);
  Recorder recorder;
  auto connection = accepted.Take();
  connection->Start(&recorder);
  ::kill(pid, SIGKILL);
  EXPECT_EQ(recorder.WaitClosed().code(), absl::StatusCode::kUnavailable);
  ::waitpid(pid, nullptr, 0);
}

TEST(AsioTcpTest, WhoDoesNotRetryIsToldOfTheFirstFailure) {
  AsioTransport transport({.retry_connects = false});
  std::promise<absl::Status> result;
  transport.Connect("tcp:127.0.0.1:1", absl::InfiniteDuration(),
                    [&](ConnectResult connected) { result.set_value(connected.status()); });
  const absl::Status status = result.get_future().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a process listening there?"));
}

TEST(AsioTcpTest, AcceptedConnectionsBearAsMuchSilenceAsTheirListener) {
  const Fd listener = *ListenSocket(*ParseAddress("tcp:127.0.0.1:0"));
  LimitSilence(listener.get(), absl::Seconds(40));
  RawPeer peer(ToString(FromSocketAddress(LocalAddress(listener.get()))));
  const Fd accepted(::accept(listener.get(), nullptr, nullptr));
  int limit = 0;
  socklen_t size = sizeof(limit);
  ASSERT_EQ(::getsockopt(accepted.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, &size), 0);
  EXPECT_EQ(limit, 40'000);
}

TEST(AsioTcpTest, NamesAreLookedUp) {
  Mailbox<std::unique_ptr<Connection>> accepted;
  Mailbox<ConnectResult> connected;
  AsioTransport transport;
  auto listener = transport.Listen("localhost:0", [&](std::unique_ptr<Connection> c) { accepted.Put(std::move(c)); });
  ASSERT_TRUE(listener.ok()) << listener.status();
  transport.Connect(absl::StrCat("localhost:", ParseAddress((*listener)->address())->port), absl::Seconds(30),
                    [&](ConnectResult c) { connected.Put(std::move(c)); });
  EXPECT_TRUE(connected.Take().ok());
  accepted.Take();
}

TEST(AsioTcpTest, ListeningOnAnAddressOfAnotherMachineSaysSo) {
  AsioTransport transport;
  const absl::Status status = transport.Listen("192.0.2.1:0", [](auto) {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("not an address of this machine"));
}

TEST(AsioUnixTest, AFileLeftBehindIsReplacedAndOursIsRemoved) {
  const std::string path = absl::StrCat(::testing::TempDir(), "pw_stale_", ::getpid());
  {
    ASSERT_TRUE(ListenSocket(*ParseAddress("unix:" + path)).ok());
  }  // leaves its file, as a killed process does
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u) << "other users cannot connect";
  {
    AsioTransport transport;
    auto listener = transport.Listen("unix:" + path, [](auto) {});
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(transport.Listen("unix:" + path, [](auto) {}).status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_NE(::stat(path.c_str(), &info), 0);
}

TEST(AsioUnixTest, AMissingFolderIsNamed) {
  AsioTransport transport;
  const absl::Status status = transport.Listen("unix:/nowhere/at/all", [](auto) {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("folder"));
}

TEST(AsioTest, FarMoreConnectionsThanThreadsWorkAtOnce) {
  Mailbox<int> all_accepted;
  std::vector<std::unique_ptr<Connection>> servers, clients;
  constexpr int kConnections = 100;
  std::vector<Recorder> recorders(kConnections);
  std::mutex mu;
  AsioTransport transport({.threads = 2});
  auto listener = transport.Listen("unix:@pw_many_" + std::to_string(::getpid()), [&](std::unique_ptr<Connection> c) {
    c->Start(&recorders[servers.size()]);
    servers.push_back(std::move(c));
    if (servers.size() == kConnections) all_accepted.Put(1);
  });
  ASSERT_TRUE(listener.ok());
  for (int i = 0; i < kConnections; ++i) {
    transport.Connect((*listener)->address(), absl::Seconds(30), [&](ConnectResult c) {
      std::lock_guard<std::mutex> lock(mu);
      ASSERT_TRUE(c.ok()) << c.status();
      (*c)->Send("hello");
      clients.push_back(*std::move(c));
    });
  }
  all_accepted.Take();
  for (Recorder& recorder : recorders) EXPECT_EQ(recorder.WaitFrames(1)[0].header, "hello");
}

}  // namespace
}  // namespace pw::net
