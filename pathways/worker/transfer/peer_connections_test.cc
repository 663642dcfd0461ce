// Links between two workers on an in-memory network that breaks, falls silent, or stays cut.
#include "pathways/worker/transfer/peer_connections.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/log.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/net/in_memory/memory_transport.h"
#include "pathways/worker/testing_connection.h"
#include "pathways/worker/testing_cut_transport.h"
#include "pathways/worker/transfer/staging.h"

namespace pw::worker {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(8), kGrace = absl::Seconds(20);
constexpr SessionId kSession(1);

std::string Address(uint32_t host) { return absl::StrCat("host", host, ":1"); }

// The bytes of a transfer depend on its name.
Bytes Content(uint64_t transfer, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(transfer * 31 + i * 7 + (i >> 12));
  return Bytes::Copy(bytes);
}

// The connections of one host, and what comes to it.
class End final : private FrameChannel::FrameReceiver, private TransferQueue::Receiver {
 public:
  End(uint32_t host, net::Transport* network, ManualExecutor* executor, Clock* clock, Timers* timers, absl::Duration grace)
      : cut(network, executor),
        strand_(executor),
        context_(&strand_, clock, &controller_, HostId(host)),
        peers_(std::make_unique<PeerConnections>(&context_, &memory_, &cut, timers, PeerConnections::Options{7, kLimit, grace})) {
    listener_ = *cut.Listen(Address(host), [this](std::unique_ptr<net::Connection> connection) {
      auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(connection));
      strand_.Post([this, shared] { peers_->Accept(std::move(*shared)); });
    });
    peers_->frames().SetFrameReceiver(this);
    peers_->transfers().SetReceiver(this);
  }

  void SetPeers(const std::vector<uint32_t>& hosts) {
    v1::Peers peers;
    for (uint32_t host : hosts) {
      auto* peer = peers.add_peers();
      peer->set_host(host);
      peer->set_address(Address(host));
    }
    strand_.Post([this, peers] { peers_->SetPeers(peers); });
  }
  // Sends a frame with the next number.
  void SendFrame(uint32_t to) {
    strand_.Post([this, to, number = ++frames_sent] {
      peers_->frames().SendFrame(HostId(to), absl::StrCat(number), {Bytes::FromString(std::string(number % 300, 'f'))});
    });
  }
  void SendTransfer(uint32_t to, uint64_t transfer, Bytes bytes) {
    strand_.Post([this, to, transfer, bytes = std::move(bytes)]() mutable {
      peers_->transfers().Send(HostId(to), transfer, kSession, std::move(bytes), [this, transfer](const absl::Status& status) {
        EXPECT_TRUE(sent.emplace(transfer, status).second) << "reported twice";
      });
    });
  }
  // Waits for a transfer. `in_place`: in memory that is ready for it.
  void Expect(uint32_t from, uint64_t transfer, size_t size, bool in_place) {
    strand_.Post([this, from, transfer, size, in_place] {
      uint8_t* into = nullptr;
      if (in_place) {
        AlignedBytes& memory = places_.try_emplace(transfer, size).first->second;
        into = memory.data();
        peers_->transfers().receive_buffers()->Expect(transfer, {memory.owner(), into}, size);
      }
      staging_.Expect(
          transfer, static_cast<int64_t>(size), kSession, HostId(from),
          [this, transfer](absl::StatusOr<Bytes> bytes) {
            EXPECT_TRUE(arrived.emplace(transfer, std::move(bytes)).second) << "arrived twice";
          },
          into);
    });
  }
  bool Has(uint64_t transfer, const Bytes& bytes) const {
    const auto it = arrived.find(transfer);
    return it != arrived.end() && it->second.ok() && it->second->view() == bytes.view();
  }
  PeerConnections& peers() { return *peers_; }
  void Destroy() { peers_ = nullptr; }

  CutTransport cut;
  uint64_t frames_sent = 0, frames_heard = 0;
  std::vector<absl::Status> broken;  // ways to the other host
  std::map<uint64_t, absl::Status> sent;
  std::map<uint64_t, absl::StatusOr<Bytes>> arrived;
  std::map<uint64_t, absl::Status> failed;

 private:
  void OnPeerFrame(HostId, const v1::DataflowFrame& frame, Bytes payload) override {
    EXPECT_EQ(frame.header(), absl::StrCat(++frames_heard)) << "each once, in order";
    EXPECT_EQ(payload.size(), frames_heard % 300);
  }
  void OnPathBroken(HostId, const absl::Status& status) override { broken.push_back(status); }
  void OnLeft(HostId, const absl::Status&) override {}
  void OnChunk(HostId from, const v1::Chunk& chunk, Bytes payload) override {
    staging_.AddChunk(chunk, std::move(payload), from);
  }
  void OnTransferFailed(HostId, uint64_t transfer, const absl::Status& status) override {
    failed[transfer] = status;
    staging_.Fail(transfer, status);
  }
  void OnPeerLost(HostId host, const absl::Status& status) override { staging_.FailSource(host, status); }
  bool Awaits(HostId host) const override { return staging_.Awaits(host); }

  RecordingConnection controller_;
  Strand strand_;
  WorkerContext context_;
  HostMemory memory_{{}};
  BlockCache blocks_;
  Accounts accounts_;
  Staging staging_{&blocks_, int64_t{1} << 30, &accounts_};
  std::map<uint64_t, AlignedBytes> places_;
  std::unique_ptr<PeerConnections> peers_;
  std::unique_ptr<net::Listener> listener_;
};

// Hosts 1 and 2.
class Hosts {
 public:
  struct Options {
    uint64_t seed = 1;  // of the order of tasks
    absl::Duration grace_of_1 = kGrace, grace_of_2 = kGrace;
  };
  explicit Hosts(const Options& options) : executor_(options.seed) {
    for (uint32_t host : {1, 2}) {
      ends_.push_back(std::make_unique<End>(host, &transport_, &executor_, &clock_, &timers_,
                                            host == 1 ? options.grace_of_1 : options.grace_of_2));
    }
    for (auto& end : ends_) end->SetPeers({1, 2});
    Settle();
  }
  Hosts() : Hosts(Options()) {}
  ~Hosts() {
    for (auto& end : ends_) end->Destroy();
    Settle();
  }

  End& operator[](uint32_t host) { return *ends_[host - 1]; }
  void Settle() { executor_.RunUntilIdle(); }
  bool RunOne() { return executor_.RunOne(); }
  void Pass(absl::Duration duration) {
    timers_.Advance(duration);
    Settle();
  }
  void Cut() {
    for (auto& end : ends_) end->cut.Cut();
  }
  void Heal() {
    for (auto& end : ends_) end->cut.Heal();
  }
  net::Counters totals() const { return network_.totals(); }
  // Connects to host 2 as a host would, and sends a hello.
  std::unique_ptr<net::Connection> Call(net::Connection::Handler* handler, const v1::PeerHello& hello) {
    std::unique_ptr<net::Connection> connection;
    transport_.Connect(Address(2), absl::Seconds(1),
                       [&](absl::StatusOr<std::unique_ptr<net::Connection>> made) { connection = *std::move(made); });
    Settle();
    connection->Start(handler);
    v1::PeerMessage message;
    *message.mutable_hello() = hello;
    connection->Send(message.SerializeAsString(), net::Lane::kBulk);
    Settle();
    return connection;
  }

 private:
  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_{&clock_, &executor_};
  net::MemoryNetwork network_;
  net::MemoryTransport transport_{&network_, &executor_};
  std::vector<std::unique_ptr<End>> ends_;
};

// Sends frames and transfers both ways while connections break.
class Disturbed {
 public:
  explicit Disturbed(uint64_t seed) : random_(seed), hosts_({.seed = seed}) {}

  // Returns the number of breaks.
  size_t Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step(1 + random_.Below(2));
      for (uint32_t tasks = random_.Below(12); tasks > 0 && hosts_.RunOne(); --tasks) {
      }
    }
    hosts_.Heal();
    hosts_.Pass(absl::Seconds(1));
    Check();
    return breaks_;
  }

 private:
  void Step(uint32_t host) {
    const uint32_t what = random_.Below(100);
    End& end = hosts_[host];
    if (what < 50) return end.SendFrame(3 - host);
    if (what < 70) return Transfer(host, 1 + random_.Below(3000));
    if (what < 72) return Transfer(host, (3 << 20) + random_.Below(1000));
    if (what < 90) {
      breaks_ += end.cut.Break();
    } else if (what < 95) {
      end.cut.Cut();
      hosts_.Pass(absl::Milliseconds(random_.Below(300)));
      end.cut.Heal();
    }
  }
  void Transfer(uint32_t host, size_t size) {
    const uint64_t transfer = 2 * ++transfers_ + host;
    const bool expected_first = random_.Below(2) == 0;
    content_.push_back({host, transfer, Content(transfer, size)});
    if (expected_first) hosts_[3 - host].Expect(host, transfer, size, random_.Below(2) == 0);
    hosts_[host].SendTransfer(3 - host, transfer, content_.back().bytes);
    if (!expected_first) hosts_[3 - host].Expect(host, transfer, size, random_.Below(2) == 0);
  }
  void Check() {
    for (uint32_t host : {1, 2}) {
      EXPECT_EQ(hosts_[host].frames_heard, hosts_[3 - host].frames_sent);
      EXPECT_TRUE(hosts_[host].broken.empty()) << hosts_[host].broken[0];
      EXPECT_TRUE(hosts_[host].failed.empty());
    }
    for (const Sent& one : content_) {
      EXPECT_EQ(hosts_[one.from].sent.at(one.transfer), absl::OkStatus());
      EXPECT_TRUE(hosts_[3 - one.from].Has(one.transfer, one.bytes)) << one.transfer;
    }
  }

  struct Sent {
    uint32_t from;
    uint64_t transfer;
    Bytes bytes;
  };
  Random random_;
  Hosts hosts_;
  size_t breaks_ = 0;
  uint64_t transfers_ = 0;
  std::vector<Sent> content_;
};

TEST(PeerConnections, FramesAndTransfersArriveOnceThroughTwoThousandBreaks) {
  SetLogLevel(LogLevel::kError);  // each break has its lines
  size_t breaks = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    breaks += Disturbed(seed).Run(500);
  }
  SetLogLevel(LogLevel::kInfo);
  EXPECT_GE(breaks, 2000u);
}

TEST(PeerConnections, ALinkIsGivenUpAtBothEndsWhenItsGraceIsOver) {
  Hosts hosts;
  const Bytes bytes = Content(77, 40 << 20);  // more than a link keeps
  hosts[2].Expect(1, 77, bytes.size(), true);
  hosts[1].SendFrame(2);
  hosts.Settle();
  hosts[1].cut.Hush();
  hosts[1].SendTransfer(2, 77, bytes);
  hosts.Settle();
  hosts.Cut();
  hosts.Pass(kGrace - absl::Seconds(1));
  EXPECT_TRUE(hosts[1].broken.empty() && hosts[2].broken.empty() && hosts[1].sent.empty());
  hosts.Pass(absl::Seconds(2));
  ASSERT_EQ(hosts[1].broken.size(), 1u);
  ASSERT_EQ(hosts[2].broken.size(), 1u);
  EXPECT_EQ(UnreachableHost(hosts[1].sent.at(77)), HostId(2));
  EXPECT_THAT(hosts[1].sent.at(77).message(), HasSubstr("the connection to host 2 at host2:1 broke: it could not be made again"));
  EXPECT_EQ(UnreachableHost(hosts[2].arrived.at(77).status()), HostId(1));
  EXPECT_THAT(hosts[2].arrived.at(77).status().message(), HasSubstr("the connection from host 1 broke"));
  hosts.Heal();
  hosts[1].SendFrame(2);
  hosts.Settle();
  EXPECT_EQ(hosts[2].frames_heard, 2u) << "another link";
  EXPECT_THAT(hosts[2].failed.at(77).message(), HasSubstr("broke during the transfer"));
}

TEST(PeerConnections, AHostThatIsNotReachedAtFirstIsTriedForTheGraceTime) {
  Hosts hosts;
  hosts.Cut();
  hosts[1].SendFrame(2);
  hosts.Pass(kGrace / 2);
  hosts.Heal();
  hosts.Pass(absl::Seconds(1));
  EXPECT_EQ(hosts[2].frames_heard, 1u);
  hosts.Cut();
  hosts[2].SendTransfer(1, 5, Content(5, 10));
  hosts.Pass(kGrace + absl::Seconds(1));
  EXPECT_THAT(hosts[2].sent.at(5).message(), HasSubstr("cannot reach host 1 at host1:1: the network is cut"));
}

TEST(PeerConnections, AHostThatHasLeftIsNotWaitedFor) {
  Hosts hosts;
  hosts[1].SendFrame(2);
  hosts[2].Expect(1, 77, 10, false);
  hosts.Settle();
  hosts.Cut();
  hosts.Settle();
  for (uint32_t host : {1, 2}) {
    hosts[host].SetPeers({host});
    hosts.Settle();
    EXPECT_EQ(hosts[host].broken.size(), 1u);
  }
  EXPECT_FALSE(hosts[2].arrived.at(77).ok());
}

TEST(PeerConnections, ASilentConnectionIsReplacedWhileFramesAreNotAcknowledged) {
  Hosts hosts;
  hosts[1].SendFrame(2);
  hosts.Settle();
  hosts.Pass(kLimit);  // acknowledged by then
  EXPECT_EQ(hosts[1].peers().kept_frames(HostId(2)), 0u);
  hosts[1].cut.Hush();
  hosts[1].SendFrame(2);
  hosts.Pass(kLimit);
  EXPECT_EQ(hosts[2].frames_heard, 2u);
  EXPECT_EQ(hosts[1].cut.connections, 2);
  EXPECT_TRUE(hosts[1].broken.empty() && hosts[2].broken.empty());
}

TEST(PeerConnections, ASilentConnectionIsReplacedWhileATransferIsAwaited) {
  Hosts hosts;
  hosts[1].SendFrame(2);
  hosts.Pass(kLimit);
  hosts[1].cut.Hush();
  hosts[2].Expect(1, 77, 10, false);
  hosts.Pass(kLimit);
  EXPECT_EQ(hosts[1].cut.connections, 2);
  hosts[1].SendTransfer(2, 77, Content(77, 10));
  hosts.Settle();
  EXPECT_TRUE(hosts[2].Has(77, Content(77, 10)));
}

TEST(PeerConnections, ALinkOnWhichNobodyWaitsCostsNothing) {
  Hosts hosts;
  hosts[1].SendFrame(2);
  hosts.Pass(kLimit);
  const net::Counters before = hosts.totals();
  hosts[1].cut.Hush();
  hosts.Pass(100 * kLimit);
  EXPECT_EQ(hosts.totals().frames_sent, before.frames_sent);
  EXPECT_EQ(hosts[1].cut.connections, 1);
}

TEST(PeerConnections, WhileNothingBreaksALinkAddsNothingToFramesAndSmallTransfers) {
  const auto cost = [](absl::Duration grace) {
    Hosts hosts({.grace_of_1 = grace, .grace_of_2 = grace});
    hosts[1].SendFrame(2);
    hosts.Settle();
    const net::Counters before = hosts.totals();
    for (int i = 0; i < 50; ++i) {
      hosts[1].SendFrame(2);
      hosts[1].SendTransfer(2, 100 + i, Content(i, 1000));
    }
    hosts.Settle();
    const net::Counters after = hosts.totals();
    return std::pair(after.frames_sent - before.frames_sent, after.bytes_sent - before.bytes_sent);
  };
  EXPECT_EQ(cost(kGrace), cost(absl::ZeroDuration()));
  EXPECT_EQ(cost(kGrace).first, 100u);
}

TEST(PeerConnections, ALargeTransferIsAcknowledgedEveryTwoMebibytesAndAtItsEnd) {
  const auto frames = [](absl::Duration grace) {
    Hosts hosts({.grace_of_1 = grace, .grace_of_2 = grace});
    hosts[2].Expect(1, 77, 64 << 20, true);
    hosts[1].SendTransfer(2, 77, Content(77, 64 << 20));
    hosts.Settle();
    EXPECT_EQ(hosts[1].peers().kept_frames(HostId(2)), 0u);
    return hosts.totals().frames_sent;
  };
  EXPECT_EQ(frames(absl::ZeroDuration()), 1u + 64u) << "hello, and the chunks";
  EXPECT_EQ(frames(kGrace), 1u + 64u + 32u);
}

TEST(PeerConnections, TheSourceOfATransferIsKeptUntilItHasArrived) {
  Hosts hosts;
  const auto owner = std::make_shared<Bytes>(Content(77, 3 << 20));
  hosts[2].Expect(1, 77, 3 << 20, true);
  hosts[1].SendFrame(2);
  hosts.Settle();
  hosts[1].cut.Hush();
  hosts[1].SendTransfer(2, 77, Bytes(owner, owner->data(), owner->size()));
  hosts.Settle();
  EXPECT_EQ(hosts[1].sent.at(77), absl::OkStatus()) << "it has left";
  EXPECT_GT(owner.use_count(), 1);
  hosts[1].cut.Break();
  hosts.Settle();
  EXPECT_TRUE(hosts[2].Has(77, *owner));
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(PeerConnections, AHelloThatWasLostBeginsTheLinkLater) {
  Hosts hosts;
  hosts[1].SendFrame(2);
  while (hosts[1].cut.connections == 0) ASSERT_TRUE(hosts.RunOne());
  while (hosts[1].peers().kept_frames(HostId(2)) == 0) ASSERT_TRUE(hosts.RunOne());
  EXPECT_EQ(hosts[1].cut.Break(), 1u);
  hosts.Settle();
  EXPECT_EQ(hosts[2].frames_heard, 1u);
  EXPECT_EQ(hosts[1].cut.connections, 2);
  EXPECT_TRUE(hosts[1].broken.empty() && hosts[2].broken.empty());
}

TEST(PeerConnections, AnEndThatHasGivenUpSaysSoWhenItIsAskedToGoOn) {
  Hosts hosts({.grace_of_2 = absl::Seconds(1)});
  hosts[1].SendFrame(2);
  hosts.Settle();
  hosts.Cut();
  hosts.Pass(absl::Seconds(2));
  EXPECT_EQ(hosts[2].broken.size(), 1u);
  EXPECT_TRUE(hosts[1].broken.empty());
  hosts.Heal();
  hosts.Pass(absl::Seconds(1));
  ASSERT_EQ(hosts[1].broken.size(), 1u);
  EXPECT_THAT(hosts[1].broken[0].message(), HasSubstr("the connection to host 2 at host2:1 broke: host 2 has given it up"));
  hosts[1].SendFrame(2);
  hosts.Settle();
  EXPECT_EQ(hosts[2].frames_heard, 2u);
}

TEST(PeerConnections, AnEndThatGivesUpSaysSoOnTheOtherWay) {
  Hosts hosts({.grace_of_1 = absl::Seconds(1)});
  hosts[1].SendFrame(2);
  hosts[2].SendFrame(1);
  hosts.Settle();
  hosts[1].cut.Cut();  // host 2 still reaches host 1
  hosts.Pass(absl::Seconds(2));
  EXPECT_EQ(hosts[1].broken.size(), 1u);
  ASSERT_EQ(hosts[2].broken.size(), 1u) << "before its own grace time is over";
  EXPECT_THAT(hosts[2].broken[0].message(), HasSubstr("the connection from host 1 broke"));
  hosts[2].SendFrame(1);
  hosts.Settle();
  EXPECT_EQ(hosts[1].frames_heard, 2u) << "the other way has not ended";
}

struct Ears : net::Connection::Handler {
  void OnFrame(net::Frame frame) override {
    v1::PeerMessage message;
    ASSERT_TRUE(message.ParseFromString(frame.header));
    heard.push_back(message);
  }
  void OnClosed(const absl::Status& reason) override { closed = reason; }
  std::vector<v1::PeerMessage> heard;
  absl::Status closed;
};

v1::PeerHello HelloOf(uint32_t from, uint64_t link) {
  v1::PeerHello hello;
  hello.set_from_host(from);
  hello.set_incarnation(7);
  hello.set_to_host(2);
  hello.set_link(link);
  return hello;
}

TEST(PeerConnections, AConnectionForAnotherHostIsRefused) {
  Hosts hosts;
  Ears ears;
  v1::PeerHello hello = HelloOf(1, 1);
  hello.set_to_host(3);
  const auto connection = hosts.Call(&ears, hello);
  EXPECT_FALSE(ears.closed.ok());
  EXPECT_TRUE(hosts[2].broken.empty());
}

TEST(PeerConnections, AFirstConnectionThatComesAfterALaterOneIsRefused) {
  Hosts hosts;
  Ears late, later;
  v1::PeerHello again = HelloOf(1, 1);
  again.mutable_received();
  const auto second = hosts.Call(&later, again);
  ASSERT_EQ(later.heard.size(), 1u);
  EXPECT_TRUE(later.heard[0].has_resumed());
  const auto first = hosts.Call(&late, HelloOf(1, 1));
  EXPECT_FALSE(late.closed.ok());
  EXPECT_TRUE(later.closed.ok());
  EXPECT_TRUE(hosts[2].broken.empty());
}

TEST(PeerConnections, ImpossibleCountsEndTheLink) {
  Hosts hosts;
  Ears first, second, third;
  const auto began = hosts.Call(&first, HelloOf(1, 1));
  v1::PeerHello again = HelloOf(1, 1);
  again.mutable_received()->set_bulk(5);
  const auto resumed = hosts.Call(&second, again);
  ASSERT_EQ(second.heard.size(), 1u);
  EXPECT_TRUE(second.heard[0].has_given_up() && !second.heard[0].given_up().own());
  EXPECT_EQ(hosts[2].broken.size(), 1u);
  const auto once_more = hosts.Call(&third, HelloOf(1, 2));
  v1::PeerMessage message;
  message.mutable_received()->set_bulk(1);
  message.set_beside(true);
  once_more->Send(message.SerializeAsString());
  hosts.Settle();
  EXPECT_FALSE(third.closed.ok());
  EXPECT_EQ(hosts[2].broken.size(), 2u);
}

}  // namespace
}  // namespace pw::worker
