// Tests the contract of Transport against every implementation.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/in_memory/memory_transport.h"
#include "pathways/net/testing.h"
#include "pathways/net/tls/testing_tls.h"

namespace pw::net {
namespace {

using ::testing::HasSubstr;
using ConnectResult = absl::StatusOr<std::unique_ptr<Connection>>;

// Two hosts and an address on which one of them can listen.
class World {
 public:
  virtual ~World() = default;
  virtual std::unique_ptr<Transport> NewTransport(const Limits& limits) = 0;
  virtual std::string Address() = 0;
  // Returns an address without a listener.
  virtual std::string FreeAddress() { return Address(); }
};

class AsioWorld : public World {
 public:
  static constexpr int kMostLoops = 3;
  enum Kind { kTcp, kUnixPath, kUnixAbstract };
  AsioWorld(Kind kind, AsioOptions options) : kind_(kind), options_(options) {}

  std::unique_ptr<Transport> NewTransport(const Limits& limits) override {
    AsioOptions options = options_;
    options.limits = limits;
    return std::make_unique<AsioTransport>(options);
  }
  std::string Address() override {
    static std::atomic<int> counter = 0;
    if (kind_ == kTcp) return "tcp:127.0.0.1:0";
    const std::string name = absl::StrCat("pw_net_test_", ::getpid(), "_", counter++);
    return kind_ == kUnixAbstract ? absl::StrCat("unix:@", name) : absl::StrCat("unix:", ::testing::TempDir(), name);
  }
  std::string FreeAddress() override {
    if (kind_ != kTcp) return Address();
    auto transport = NewTransport({});
    return (*transport->Listen(Address(), [](auto) {}))->address();
  }

 private:
  const Kind kind_;
  const AsioOptions options_;
};

class MemoryWorld : public World {
 public:
  explicit MemoryWorld(Payloads payloads = Payloads::kLikeSockets) : network_(payloads) {}
  std::unique_ptr<Transport> NewTransport(const Limits& limits) override {
    return std::make_unique<MemoryTransport>(&network_, &pool_, &timers_, limits);
  }
  std::string Address() override { return "tcp:memory:0"; }
  std::string FreeAddress() override { return "tcp:memory:17"; }

 private:
  MemoryNetwork network_;
  SteadyClock clock_;
  ThreadPool pool_{"memory", 3};
  TimerQueue timers_{&clock_};
};

struct Param {
  std::string name;
  std::function<std::unique_ptr<World>()> make;
};

class ConformanceTest : public ::testing::TestWithParam<Param> {
 protected:
  // Makes a connected pair, which the test starts.
  struct Pair {
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Connection> client, server;
  };

  void SetUp() override { Reset({}, {}); }
  void Reset(const Limits& client, const Limits& server) {
    client_ = world_->NewTransport(client);
    server_ = world_->NewTransport(server);
  }
  Pair Connect() {
    Pair pair;
    Mailbox<std::unique_ptr<Connection>> accepted;
    Mailbox<ConnectResult> connected;
    auto listener = server_->Listen(world_->Address(), [&](std::unique_ptr<Connection> c) { accepted.Put(std::move(c)); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    pair.listener = *std::move(listener);
    client_->Connect(pair.listener->address(), absl::Seconds(30), [&](ConnectResult c) { connected.Put(std::move(c)); });
    ConnectResult result = connected.Take();
    EXPECT_TRUE(result.ok()) << result.status();
    pair.client = *std::move(result);
    pair.server = accepted.Take();
    return pair;
  }

  const std::unique_ptr<World> world_ = GetParam().make();
  std::unique_ptr<Transport> client_, server_;
};

TEST_P(ConformanceTest, AFrameArrivesAsItWasSentInBothDirections) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  const Bytes payload = Pattern(100000, 1);
  pair.client->Send("question", {payload.Slice(0, 1), payload.Slice(1, 60000), payload.Slice(60001, 39999)}, Lane::kBulk);
  pair.server->Send("answer");
  EXPECT_EQ(at_server.WaitFrames(1)[0].header, "question");
  EXPECT_EQ(at_server.WaitFrames(1)[0].payload.view(), payload.view());
  EXPECT_EQ(at_client.WaitFrames(1)[0].header, "answer");
  EXPECT_TRUE(at_client.WaitFrames(1)[0].payload.empty());
}

TEST_P(ConformanceTest, EmptyHeadersAndPayloadsAreFrames) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  pair.client->Send("");
  pair.client->Send("", {Bytes(), Bytes()}, Lane::kUrgent);
  pair.client->Send("", {Bytes::Copy("x"), Bytes()}, Lane::kUrgent);
  pair.client->Send("h", {}, Lane::kUrgent);
  const std::vector<Frame> frames = at_server.WaitFrames(4);
  EXPECT_EQ(frames[0].header + std::string(frames[0].payload.view()), "");
  EXPECT_EQ(frames[1].header + std::string(frames[1].payload.view()), "");
  EXPECT_EQ(frames[2].payload.view(), "x");
  EXPECT_EQ(frames[3].header, "h");
}

TEST_P(ConformanceTest, EachLaneKeepsItsOrder) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  constexpr int kFrames = 4000;
  for (int i = 0; i < kFrames; ++i) {
    pair.client->Send(absl::StrCat(i), {Pattern((i * 37) % 3000, i % 256)}, i % 3 == 0 ? Lane::kUrgent : Lane::kBulk);
  }
  int last[2] = {-1, -1};
  for (const Frame& frame : at_server.WaitFrames(kFrames)) {
    const int i = std::stoi(frame.header);
    int& previous = last[i % 3 == 0];
    EXPECT_LT(previous, i);
    previous = i;
    EXPECT_EQ(frame.payload.view(), Pattern((i * 37) % 3000, i % 256).view());
  }
}

TEST_P(ConformanceTest, UrgentFramesOvertakeBulkFrames) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  const Bytes megabyte = Pattern(1 << 20, 7);
  for (int i = 0; i < 64; ++i) pair.client->Send("bulk", {megabyte}, Lane::kBulk);
  pair.client->Send("urgent");
  pair.server->Start(&at_server);
  const std::vector<Frame> frames = at_server.WaitFrames(65);
  size_t at = 0;
  while (frames[at].header != "urgent") ++at;
  EXPECT_LT(at, 32u);
}

TEST_P(ConformanceTest, LargePayloadsArriveWhole) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  const Bytes payload = Pattern(64 << 20, 3);
  pair.client->Send("large", {payload.Slice(0, 12345), payload.Slice(12345, payload.size() - 12345)}, Lane::kBulk);
  pair.client->Send(std::string(1 << 20, 'h'), Lane::kBulk);
  pair.client->Send("after", Lane::kBulk);
  const std::vector<Frame> frames = at_server.WaitFrames(3);
  EXPECT_TRUE(frames[0].payload.view() == payload.view());
  EXPECT_EQ(frames[1].header, std::string(1 << 20, 'h'));
  EXPECT_EQ(frames[2].header, "after");
}

TEST_P(ConformanceTest, ManyThreadsSendOnOneConnectionAndCountersAgree) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  constexpr int kThreads = 4, kFrames = 1500;
  std::vector<std::thread> senders;
  for (int t = 0; t < kThreads; ++t) {
    senders.emplace_back([&, t] {
      Connection* from = t % 2 == 0 ? pair.client.get() : pair.server.get();
      for (int i = 0; i < kFrames; ++i) from->Send(absl::StrCat(t, ":", i), {Pattern(i % 700, t)}, Lane::kUrgent);
    });
  }
  for (std::thread& sender : senders) sender.join();
  for (Recorder* recorder : {&at_client, &at_server}) {
    int next[kThreads] = {};
    for (const Frame& frame : recorder->WaitFrames(2 * kFrames)) {
      const int t = frame.header[0] - '0';
      EXPECT_EQ(frame.header, absl::StrCat(t, ":", next[t]++));
    }
  }
  const Counters client = pair.client->counters(), server = pair.server->counters();
  EXPECT_EQ(client.frames_sent, 2u * kFrames);
  EXPECT_EQ(client.frames_received, 2u * kFrames);
  EXPECT_EQ(client.bytes_sent, server.bytes_received);
  EXPECT_EQ(server.bytes_sent, client.bytes_received);
}

TEST_P(ConformanceTest, AnswersFromInsideTheHandler) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  at_server.on_frame = [&](const Frame& frame) { pair.server->Send(frame.header, {frame.payload}, Lane::kUrgent); };
  at_client.on_frame = [&](const Frame& frame) {
    const int i = std::stoi(frame.header);
    if (i < 500) pair.client->Send(absl::StrCat(i + 1));
  };
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  pair.client->Send("0");
  EXPECT_EQ(at_client.WaitFrames(501).back().header, "500");
}

TEST_P(ConformanceTest, CloseTellsBothSidesOnceAndUrgentFramesBeforeItArrive) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  pair.client->Send("goodbye");
  pair.client->Close(absl::AbortedError("enough"));
  pair.client->Close(absl::InternalError("the second reason does not count"));
  pair.client->Send("too late");
  EXPECT_EQ(at_client.WaitClosed(), absl::AbortedError("enough"));
  const absl::Status seen = at_server.WaitClosed();
  EXPECT_EQ(seen.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(seen.message(), HasSubstr("was closed by the peer"));
  EXPECT_THAT(seen.message(), HasSubstr(pair.server->peer()));
  ASSERT_EQ(at_server.frames().size(), 1u);
  EXPECT_EQ(at_server.frames()[0].header, "goodbye");
  pair.server->Send("to nobody");
  EXPECT_EQ(pair.client->counters().frames_sent, 1u);
}

TEST_P(ConformanceTest, WhatWasSentLastArrivesThoughMuchWasNotRead) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.server->Start(&at_server);  // the client never reads
  const Bytes megabyte = Pattern(1 << 20, 7);
  for (int i = 0; i < 8; ++i) pair.server->Send("unread", {megabyte}, Lane::kBulk);
  pair.client->Send("goodbye");
  pair.client->Close(absl::AbortedError("enough"));
  pair.client.reset();
  EXPECT_EQ(at_server.WaitFrames(1)[0].header, "goodbye");
  EXPECT_EQ(at_server.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ConformanceTest, AConnectionClosedBeforeStartStillSaysSo) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Close(absl::AbortedError("changed my mind"));
  pair.client->Start(&at_client);
  EXPECT_EQ(at_client.WaitClosed(), absl::AbortedError("changed my mind"));
  pair.server->Start(&at_server);
  EXPECT_EQ(at_server.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ConformanceTest, DestroyingAConnectionClosesIt) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  pair.client->Send("last");
  pair.client.reset();
  EXPECT_EQ(at_server.WaitFrames(1)[0].header, "last");
  EXPECT_EQ(at_server.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ConformanceTest, AHandlerMayDestroyItsConnection) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  int seen = 0;
  at_server.on_frame = [&](const Frame&) {
    ++seen;
    pair.server.reset();
  };
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  for (int i = 0; i < 100; ++i) pair.client->Send("frame");
  EXPECT_EQ(at_client.WaitClosed().code(), absl::StatusCode::kUnavailable);
  at_server.WaitFrames(1);  // the client receives the frame while the handler is still in its call
  server_.reset();          // after this no callback can come
  EXPECT_EQ(seen, 1);
}

TEST_P(ConformanceTest, OnClosedMayDestroyItsConnection) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  Mailbox<bool> destroyed;
  at_server.on_closed = [&] {
    pair.server.reset();
    destroyed.Put(true);
  };
  pair.server->Start(&at_server);
  pair.client.reset();
  EXPECT_TRUE(destroyed.Take());
}

TEST_P(ConformanceTest, AfterDestructionOnAnotherThreadNoHandlerRuns) {
  for (int round = 0; round < 20; ++round) {
    Recorder at_client;
    Pair pair = Connect();
    pair.client->Start(&at_client);
    auto at_server = std::make_unique<Recorder>();
    pair.server->Start(at_server.get());
    std::thread sender([&] {
      for (int i = 0; i < 200; ++i) pair.client->Send("frame", {Pattern(i, i)}, Lane::kUrgent);
    });
    at_server->WaitFrames(1);
    pair.server.reset();
    at_server.reset();  // a late call would touch freed memory
    sender.join();
    EXPECT_EQ(at_client.WaitClosed().code(), absl::StatusCode::kUnavailable);
  }
}

TEST_P(ConformanceTest, AGoodProducerIsStoppedAndToldWhenToGoOn) {
  Limits limits;
  limits.bulk_high_water_bytes = 4 << 20;
  Reset(limits, limits);
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  const Bytes megabyte = Pattern(1 << 20, 7);
  size_t sent = 0;
  for (; pair.client->CanSendBulk() && sent < 1000; ++sent) pair.client->Send("bulk", {megabyte}, Lane::kBulk);
  EXPECT_GE(sent, 4u);
  EXPECT_LT(sent, 1000u);
  pair.server->Start(&at_server);
  at_client.WaitWritable(1);
  EXPECT_TRUE(pair.client->CanSendBulk());
  at_server.WaitFrames(sent);
}

TEST_P(ConformanceTest, AFrameAboveTheSendersLimitsClosesWithTheNumbers) {
  Limits limits;
  limits.max_header_bytes = 1000;
  limits.max_payload_bytes = 5000;
  Reset(limits, limits);
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  pair.client->Send(std::string(1000, 'h'), {Pattern(5000, 1)}, Lane::kUrgent);
  at_server.WaitFrames(1);
  pair.client->Send("header", {Pattern(5001, 1)}, Lane::kUrgent);
  const absl::Status status = at_client.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("5001"));
  EXPECT_THAT(status.message(), HasSubstr("5000"));
  EXPECT_EQ(at_server.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ConformanceTest, AFrameAboveTheReceiversLimitsIsRefused) {
  Limits limits;
  limits.max_header_bytes = 1000;
  Reset({}, limits);
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  pair.client->Send(std::string(1001, 'h'));
  const absl::Status status = at_server.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("1001"));
  EXPECT_TRUE(at_server.frames().empty());
  EXPECT_EQ(at_client.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

class Choosy : public Recorder {
 public:
  absl::Status Admit(size_t header_bytes, size_t payload_bytes) override {
    if (header_bytes + payload_bytes <= 10) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a stranger sends ", header_bytes, " and ", payload_bytes));
  }
};

TEST_P(ConformanceTest, AHandlerTakesOnlyWhatItAdmits) {
  Recorder at_client;
  Choosy at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  pair.client->Send("hello", {Bytes::Copy("there")}, Lane::kUrgent);
  EXPECT_EQ(at_server.WaitFrames(1)[0].header, "hello");
  pair.client->Send("hello", {Bytes::Copy("again!")}, Lane::kUrgent);
  const absl::Status status = at_server.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("a stranger sends 5 and 6"));
  EXPECT_EQ(at_server.frames().size(), 1);
  EXPECT_EQ(at_client.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ConformanceTest, ConnectFindsAPeerThatStartsLater) {
  const std::string address = world_->FreeAddress();
  Mailbox<ConnectResult> connected;
  Mailbox<std::unique_ptr<Connection>> accepted;
  client_->Connect(address, absl::Seconds(30), [&](ConnectResult c) { connected.Put(std::move(c)); });
  // Waits until later attempts on every loop of the client have failed: the first one has then failed, too, without a listener.
  for (int loop = 0; loop < AsioWorld::kMostLoops; ++loop) {
    Mailbox<ConnectResult> other;
    client_->Connect(world_->FreeAddress(), absl::Milliseconds(1), [&](ConnectResult c) { other.Put(std::move(c)); });
    EXPECT_FALSE(other.Take().ok());
  }
  auto listener = server_->Listen(address, [&](std::unique_ptr<Connection> c) { accepted.Put(std::move(c)); });
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(connected.Take().ok());
  EXPECT_NE(accepted.Take(), nullptr);
}

TEST_P(ConformanceTest, ConnectGivesUpInTime) {
  const std::string address = world_->FreeAddress();
  Mailbox<ConnectResult> connected;
  client_->Connect(address, absl::Milliseconds(30), [&](ConnectResult c) { connected.Put(std::move(c)); });
  const absl::Status status = connected.Take().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(address));
  EXPECT_THAT(status.message(), HasSubstr("30ms"));
}

TEST_P(ConformanceTest, BadAddressesAreRefusedWithTheFormsThatWork) {
  for (const char* bad : {"", "localhost", "tcp:host:99999", "tcp:::1:80", "unix:", "tcp::80"}) {
    Mailbox<ConnectResult> connected;
    client_->Connect(bad, absl::Seconds(30), [&](ConnectResult c) { connected.Put(std::move(c)); });
    for (const absl::Status& status : {server_->Listen(bad, [](auto) {}).status(), connected.Take().status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
      EXPECT_THAT(status.message(), HasSubstr("tcp:HOST:PORT"));
    }
  }
}

TEST_P(ConformanceTest, AnAddressInUseSaysSo) {
  auto first = server_->Listen(world_->Address(), [](auto) {});
  ASSERT_TRUE(first.ok());
  auto second = client_->Listen((*first)->address(), [](auto) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(second.status().message(), HasSubstr((*first)->address()));
  EXPECT_THAT(second.status().message(), HasSubstr("choose another"));
}

TEST_P(ConformanceTest, ConnectionsOutliveTheirListenerAndNewOnesAreRefused) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  const std::string address = pair.listener->address();
  pair.listener.reset();
  pair.client->Send("still here");
  EXPECT_EQ(at_server.WaitFrames(1)[0].header, "still here");
  // A frame has crossed the server's loop after the listener was dropped, so the address is free by now.
  Mailbox<ConnectResult> connected;
  client_->Connect(address, absl::Milliseconds(20), [&](ConnectResult c) { connected.Put(std::move(c)); });
  EXPECT_EQ(connected.Take().status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ConformanceTest, AListenerMayBeDestroyedByItsCallback) {
  std::unique_ptr<Listener> listener;
  Mailbox<bool> listening;
  Mailbox<std::unique_ptr<Connection>> accepted;
  auto made = server_->Listen(world_->Address(), [&](std::unique_ptr<Connection> c) {
    listening.Take();
    listener.reset();
    accepted.Put(std::move(c));
  });
  ASSERT_TRUE(made.ok());
  listener = *std::move(made);
  listening.Put(true);
  Mailbox<ConnectResult> connected;
  client_->Connect(listener->address(), absl::Seconds(30), [&](ConnectResult c) { connected.Put(std::move(c)); });
  EXPECT_TRUE(connected.Take().ok());
  EXPECT_NE(accepted.Take(), nullptr);
}

TEST_P(ConformanceTest, TheEndOfATransportClosesWhatIsOpen) {
  Recorder at_client, at_server;
  Pair pair = Connect();
  pair.client->Start(&at_client);
  pair.server->Start(&at_server);
  Mailbox<ConnectResult> connecting;
  server_->Connect(world_->FreeAddress(), absl::InfiniteDuration(), [&](ConnectResult c) { connecting.Put(std::move(c)); });
  server_.reset();
  EXPECT_EQ(at_server.WaitClosed().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(connecting.Take().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(at_client.WaitClosed().code(), absl::StatusCode::kUnavailable);
  pair.server->Send("nothing happens");
  pair.server->Close(absl::OkStatus());
}

Param Asio(std::string name, AsioWorld::Kind kind, AsioOptions options = {}) {
  return {std::move(name), [=] { return std::make_unique<AsioWorld>(kind, options); }};
}

// Both ends show a worker's certificate, as workers do.
std::shared_ptr<Tls> SharedTls() {
  static const std::shared_ptr<Tls> tls = TestAuthority().Of(Part::kWorker);
  return tls;
}

INSTANTIATE_TEST_SUITE_P(
    All, ConformanceTest,
    ::testing::Values(Asio("Tcp", AsioWorld::kTcp), Asio("Unix", AsioWorld::kUnixPath),
                      Asio("UnixAbstract", AsioWorld::kUnixAbstract, {.threads = AsioWorld::kMostLoops}),
                      Asio("TcpThroughTheLoop", AsioWorld::kTcp, {.threads = 2, .inline_sends = false}),
                      Asio("Tls", AsioWorld::kTcp, {.tls = SharedTls()}),
                      Asio("TlsThroughTheLoops", AsioWorld::kTcp, {.threads = 2, .inline_sends = false, .tls = SharedTls()}),
                      Param{"Memory", [] { return std::make_unique<MemoryWorld>(); }},
                      Param{"MemoryHandedOver", [] { return std::make_unique<MemoryWorld>(Payloads::kHandedOver); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace pw::net
