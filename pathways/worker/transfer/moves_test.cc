// Tests moves between two workers, connected by an in-memory transport.
#include "pathways/worker/transfer/moves.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/crc32c.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/worker/testing.h"
#include "pathways/worker/testing_cut_transport.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The workers of hosts 1 and 2.
class TwoWorkers {
 public:
  static constexpr absl::Duration kGrace = absl::Seconds(20);  // of links that outlive their connections

  explicit TwoWorkers(bool takes_shared = false, bool checksum = false, absl::Duration grace = absl::ZeroDuration())
      : takes_shared_(takes_shared) {
    for (uint32_t host : {1u, 2u}) {
      WorkerHarness::Setup setup;
      setup.host = host;
      setup.takes_shared = takes_shared;
      setup.checksum = checksum;
      setup.executor = &executor_;
      setup.transport = &network;
      setup.clock = &clock_;
      setup.timers = &timers_;
      setup.grace = grace;
      hosts_.push_back(std::make_unique<WorkerHarness>(setup));
      listeners_.push_back(
          *transport_.Listen("host" + std::to_string(host) + ":1", [this, host](std::unique_ptr<net::Connection> c) {
            auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(c));
            WorkerHarness* w = hosts_[host - 1].get();
            w->strand.Post([w, shared] {
              if (w->worker != nullptr) w->worker->peers().Accept(std::move(*shared));
            });
          }));
    }
    SetPeers({1, 2});
  }
  ~TwoWorkers() {
    for (auto& host : hosts_) host->worker = nullptr;
    Settle();
  }

  WorkerHarness& operator[](uint32_t host) { return *hosts_[host - 1]; }
  void SetPeers(const std::vector<uint32_t>& known) {
    v1::Command command;
    for (uint32_t host : known) {
      auto* peer = command.mutable_peers()->add_peers();
      peer->set_host(host);
      peer->set_address("host" + std::to_string(host) + ":1");
      peer->set_takes_shared(takes_shared_);
    }
    for (auto& host : hosts_) host->Do(command);
  }
  void Settle() {
    for (int i = 0; i < 3; ++i) {
      for (auto& host : hosts_) host->Settle();
    }
  }
  // Connects to a worker as a peer does.
  std::unique_ptr<net::Connection> Connect(uint32_t host) {
    std::unique_ptr<net::Connection> connection;
    transport_.Connect("host" + std::to_string(host) + ":1", absl::Seconds(1),
                       [&](absl::StatusOr<std::unique_ptr<net::Connection>> made) { connection = *std::move(made); });
    Settle();
    return connection;
  }
  void StopListening(uint32_t host) { listeners_[host - 1].reset(); }
  void Pass(absl::Duration duration) {
    timers_.Advance(duration);
    Settle();
  }

 private:
  const bool takes_shared_;
  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_{&clock_, &executor_};
  net::MemoryNetwork memory_;
  net::MemoryTransport transport_{&memory_, &executor_};

 public:
  CutTransport network{&transport_, &executor_};

 private:
  std::vector<std::unique_ptr<WorkerHarness>> hosts_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
};

void Set(v1::Move::Region* region, std::vector<int64_t> start, std::vector<int64_t> size) {
  for (int64_t s : start) region->add_start(s);
  for (int64_t s : size) region->add_size(s);
}

v1::Command SendCommand(uint64_t op, uint64_t transfer, uint64_t array, int shard, int64_t start, int64_t size, uint32_t to) {
  v1::Command command;
  command.mutable_move()->set_op(op);
  command.mutable_move()->set_session(1);
  auto* send = command.mutable_move()->add_sends();
  send->set_transfer(transfer);
  send->set_array(array);
  send->set_shard(shard);
  Set(send->mutable_region(), {start}, {size});
  send->set_to_host(to);
  return command;
}

v1::Move::Receive* AddReceive(v1::Command* command, uint64_t op, uint64_t array, int64_t elements) {
  command->mutable_move()->set_op(op);
  command->mutable_move()->set_session(1);
  auto* receive = command->mutable_move()->add_receives();
  receive->set_array(array);
  receive->set_local_device(1);
  receive->set_dtype(11);
  receive->add_dims(elements);
  return receive;
}

void AddRemote(v1::Move::Receive* receive, int64_t start, int64_t size, uint64_t transfer, uint32_t from) {
  auto* piece = receive->add_pieces();
  Set(piece->mutable_to(), {start}, {size});
  piece->set_transfer(transfer);
  piece->set_from_host(from);
}

TEST(Moves, PiecesFromHereAndThereMakeAShard) {
  TwoWorkers hosts;
  hosts[1].Put(10, 100, {1, 2, 3, 4});
  hosts[2].Put(10, 200, {5, 6, 7, 8});
  hosts.Settle();
  hosts[1].Do(SendCommand(11, 77, 100, 1, 1, 2, 2));
  v1::Command command;
  auto* receive = AddReceive(&command, 12, 300, 5);
  AddRemote(receive, 0, 2, 77, 1);
  auto* local = receive->add_pieces();
  Set(local->mutable_to(), {2}, {3});
  local->set_source_array(200);
  local->set_source_shard(0);
  Set(local->mutable_from(), {1}, {3});
  local->set_from_host(2);
  hosts[2].Do(command);
  hosts.Settle();
  EXPECT_TRUE(hosts[1].connection.done.at(11).ok());
  EXPECT_TRUE(hosts[2].connection.done.at(12).ok());
  EXPECT_THAT(hosts[2].Read(300, 0), ElementsAre(2, 3, 6, 7, 8));
}

TEST(Moves, LargeTransfersGoInChunksWhicheverSideIsFirst) {
  TwoWorkers hosts;
  std::vector<float> values(3 << 20, 2.5f);
  values.back() = 7;
  v1::Command command;
  AddRemote(AddReceive(&command, 12, 300, static_cast<int64_t>(values.size())), 0, static_cast<int64_t>(values.size()), 77, 1);
  hosts[2].Do(command);
  hosts[1].Put(10, 100, values);
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, static_cast<int64_t>(values.size()), 2));
  hosts.Settle();
  EXPECT_EQ(hosts[2].Read(300, 0), values);
}

TEST(Moves, LargePiecesOfAShardAreWrittenWhereTheyBelong) {
  constexpr int64_t kPart = 700'000;  // several chunks each
  for (bool command_first : {true, false}) {
    TwoWorkers hosts;
    std::vector<float> values(2 * kPart);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    v1::Command command;
    auto* receive = AddReceive(&command, 12, 300, 2 * kPart);
    AddRemote(receive, kPart, kPart, 78, 1);
    AddRemote(receive, 0, kPart, 77, 1);
    if (command_first) hosts[2].Do(command);
    hosts[1].Put(10, 100, values);
    hosts[1].Do(SendCommand(11, 77, 100, 0, 0, kPart, 2));
    hosts[1].Do(SendCommand(13, 78, 100, 0, kPart, kPart, 2));
    hosts.Settle();
    if (!command_first) hosts[2].Do(command);
    hosts.Settle();
    EXPECT_EQ(hosts[2].Read(300, 0), values);
  }
}

TEST(Moves, HostsOfOneMachineNameSharedMemoryInsteadOfSending) {
  for (const int64_t start : {0, 5}) {  // the whole shard, or a part of it
    TwoWorkers hosts(/*takes_shared=*/true);
    std::vector<float> values(1 << 20, 2.5f);
    values.back() = 7;
    const auto size = static_cast<int64_t>(values.size()) - start;
    v1::Command command;
    AddRemote(AddReceive(&command, 12, 300, size), 0, size, 77, 1);
    hosts[2].Do(command);
    hosts[1].Put(10, 100, values);
    hosts[1].Do(SendCommand(11, 77, 100, 0, start, size, 2));
    hosts.Settle();
    EXPECT_TRUE(hosts[1].connection.done.at(11).ok());
    EXPECT_EQ(hosts[1].worker->peers().counters(HostId(2)).frames_sent, 2u) << "hello, and the name of the memory";
    EXPECT_LT(hosts[1].worker->peers().counters(HostId(2)).bytes_sent, 200u);
    const std::vector<float> got = hosts[2].Read(300, 0);
    EXPECT_EQ(got, std::vector<float>(values.begin() + start, values.end()));
  }
}

TEST(Moves, ChecksumsAreSentAndMatch) {
  for (bool shared : {false, true}) {
    TwoWorkers hosts(shared, /*checksum=*/true);
    std::vector<float> values(1 << 20, 2.5f);
    v1::Command command;
    AddRemote(AddReceive(&command, 12, 300, 1 << 20), 0, 1 << 20, 77, 1);
    hosts[2].Do(command);
    hosts[1].Put(10, 100, values);
    hosts[1].Do(SendCommand(11, 77, 100, 0, 0, 1 << 20, 2));
    hosts.Settle();
    EXPECT_EQ(hosts[2].Read(300, 0), values);
  }
}

class Deaf : public net::Connection::Handler {
  void OnFrame(net::Frame) override {}
  void OnClosed(const absl::Status&) override {}
};

TEST(Moves, BytesThatWereDamagedFailTheirTransferAndNothingElse) {
  TwoWorkers hosts;
  v1::Command command;
  AddRemote(AddReceive(&command, 12, 300, 2), 0, 2, 77, 1);
  hosts[2].Do(command);
  v1::Command other;
  AddRemote(AddReceive(&other, 13, 301, 2), 0, 2, 78, 1);
  hosts[2].Do(other);
  Deaf deaf;
  const std::unique_ptr<net::Connection> peer = hosts.Connect(2);
  peer->Start(&deaf);
  v1::PeerMessage hello;
  hello.mutable_hello()->set_from_host(1);
  hello.mutable_hello()->set_incarnation(7);
  peer->Send(hello.SerializeAsString(), {}, net::Lane::kBulk);
  const std::string bytes = FloatBytes({1, 2});
  for (uint64_t transfer : {77, 78}) {
    v1::PeerMessage message;
    v1::Chunk& chunk = *message.mutable_chunk();
    chunk.set_transfer(transfer);
    chunk.set_total_bytes(bytes.size());
    chunk.set_payload_bytes(bytes.size());
    chunk.set_crc32c(Crc32c(bytes) ^ (transfer == 77 ? 1 : 0));
    peer->Send(message.SerializeAsString(), {Bytes::Copy(bytes)}, net::Lane::kBulk);
  }
  hosts.Settle();
  EXPECT_EQ(hosts[2].connection.done.at(12).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(hosts[2].connection.done.at(12).message()), HasSubstr("host 1 sent to host 2 were damaged"));
  EXPECT_THAT(hosts[2].Read(301, 0), ElementsAre(1, 2));
}

TEST(Moves, ASendReadsItsArrayBeforeALaterDonation) {
  TwoWorkers hosts;
  hosts[1].Compile(1, "args=1 outputs=1 dims=2 donate=0");
  hosts.Settle();
  hosts[1].PutLater(10, 100, 2);
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, 2, 2));
  hosts[1].Execute(12, 1, {100}, {101});
  v1::Command command;
  AddRemote(AddReceive(&command, 13, 300, 2), 0, 2, 77, 1);
  hosts[2].Do(command);
  hosts[1].SendChunks(10, {1, 2});
  hosts.Settle();
  EXPECT_THAT(hosts[2].Read(300, 0), ElementsAre(1, 2));
  EXPECT_THAT(hosts[1].Read(101, 0), ElementsAre(2, 3));
}

// Device memory is host memory: the data is sent without a copy, and not taken over before it has left.
TEST(Moves, ALargeArrayIsSentFromWhereItLiesAndArrivesWhereItBelongs) {
  constexpr int64_t kElements = 3 << 20;
  TwoWorkers hosts;
  hosts[1].Compile(1, "args=1 outputs=1 dims=3145728 donate=0");
  std::vector<float> values(kElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  hosts[1].Put(10, 100, values);
  v1::Command command;
  AddRemote(AddReceive(&command, 12, 300, kElements), 0, kElements, 77, 1);
  hosts[2].Do(command);
  hosts.Settle();
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, kElements, 2));
  hosts[1].Execute(13, 1, {100}, {101});  // takes over the array
  hosts.Settle();
  EXPECT_TRUE(hosts[1].connection.done.at(11).ok());
  EXPECT_TRUE(hosts[1].connection.done.at(13).ok());
  EXPECT_TRUE(hosts[2].connection.done.at(12).ok());
  EXPECT_EQ(hosts[2].Read(300, 0), values);
}

// The link keeps the chunks that have not arrived, and with them the array in place.
TEST(Moves, AnArrayIsNotTakenOverBeforeALinkThatBreaksHasCarriedIt) {
  constexpr int64_t kElements = 3 << 20;
  TwoWorkers hosts(false, false, TwoWorkers::kGrace);
  hosts[1].Compile(1, "args=1 outputs=1 dims=3145728 donate=0");
  std::vector<float> values(kElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  hosts[1].Put(10, 100, values);
  hosts[1].Put(9, 99, {1});
  for (const auto& [op, array, transfer, elements] : {std::tuple(12, 300, 77, kElements), std::tuple(14, 301, 78, int64_t{1})}) {
    v1::Command command;
    AddRemote(AddReceive(&command, op, array, elements), 0, elements, transfer, 1);
    hosts[2].Do(command);
  }
  hosts[1].Do(SendCommand(13, 78, 99, 0, 0, 1, 2));
  hosts.Settle();
  EXPECT_TRUE(hosts[2].connection.done.at(14).ok()) << "there is a link";
  hosts.network.Hush();
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, kElements, 2));
  hosts[1].Execute(15, 1, {100}, {101});  // takes over the array
  hosts.Settle();
  EXPECT_TRUE(hosts[1].connection.done.at(11).ok()) << "it has left";
  EXPECT_EQ(hosts[1].connection.done.count(15), 0u);
  hosts.network.Cut();
  hosts.Pass(TwoWorkers::kGrace / 2);
  EXPECT_EQ(hosts[1].connection.done.count(15) + hosts[2].connection.done.count(12), 0u);
  hosts.network.Heal();
  hosts.Pass(absl::Seconds(1));
  EXPECT_TRUE(hosts[1].connection.done.at(15).ok());
  EXPECT_TRUE(hosts[2].connection.done.at(12).ok());
  EXPECT_EQ(hosts[2].Read(300, 0), values);
}

TEST(Moves, AWayThatStaysBrokenFailsWhatGoesThereAndNothingElse) {
  TwoWorkers hosts(false, false, TwoWorkers::kGrace);
  hosts[1].Put(10, 100, {1, 2});
  hosts.network.Cut();
  v1::Command command;
  AddRemote(AddReceive(&command, 12, 300, 2), 0, 2, 77, 1);
  hosts[2].Do(command);
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, 2, 2));
  hosts.Pass(TwoWorkers::kGrace + absl::Seconds(1));
  EXPECT_THAT(std::string(hosts[1].connection.done.at(11).message()), HasSubstr("cannot reach host 2 at host2:1"));
  EXPECT_THAT(hosts[1].Read(100, 0), ElementsAre(1, 2));
  hosts.network.Heal();
  command.Clear();
  AddRemote(AddReceive(&command, 14, 301, 2), 0, 2, 78, 1);
  hosts[2].Do(command);
  hosts[1].Do(SendCommand(13, 78, 100, 0, 0, 2, 2));
  hosts.Settle();
  EXPECT_THAT(hosts[2].Read(301, 0), ElementsAre(1, 2));
  EXPECT_EQ(hosts[2].connection.done.at(12).code(), absl::StatusCode::kUnavailable) << "the next link says that it was lost";
}

TEST(Moves, APoisonedSourcePoisonsTheFarShard) {
  TwoWorkers hosts;
  v1::Command poison;
  poison.mutable_poison()->add_arrays(100);
  poison.mutable_poison()->mutable_error()->set_code(13);
  poison.mutable_poison()->mutable_error()->set_message("bad step");
  hosts[1].Do(poison);
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, 2, 2));
  v1::Command command;
  AddRemote(AddReceive(&command, 12, 300, 2), 0, 2, 77, 1);
  hosts[2].Do(command);
  hosts.Settle();
  EXPECT_EQ(hosts[1].connection.done.at(11), absl::InternalError("bad step"));
  EXPECT_EQ(hosts[2].connection.done.at(12), absl::InternalError("bad step"));
}

TEST(Moves, ALostPeerFailsWhatWasToComeFromIt) {
  TwoWorkers hosts;
  hosts[1].Put(10, 100, {1, 2});
  hosts.Settle();
  v1::Command command;
  AddRemote(AddReceive(&command, 12, 300, 2), 0, 2, 77, 1);
  hosts[2].Do(command);
  hosts.Settle();
  hosts.SetPeers({2});
  hosts.Settle();
  EXPECT_EQ(hosts[2].connection.done.at(12).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(hosts[2].connection.done.at(12).message()), HasSubstr("host 1"));
  v1::Command late;
  AddRemote(AddReceive(&late, 13, 301, 2), 0, 2, 78, 1);
  hosts[2].Do(late);
  hosts.Settle();
  EXPECT_EQ(hosts[2].connection.done.at(13).code(), absl::StatusCode::kUnavailable);
}

TEST(Moves, APeerThatCannotBeReachedFailsTheSend) {
  TwoWorkers hosts;
  hosts.StopListening(2);
  hosts[1].Put(10, 100, {1, 2});
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, 2, 2));
  hosts[1].Do(SendCommand(12, 78, 100, 0, 0, 2, 9));
  hosts.Settle();
  EXPECT_EQ(hosts[1].connection.done.at(11).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(hosts[1].connection.done.at(11).message()), HasSubstr("host 2 at host2:1"));
  EXPECT_EQ(hosts[1].connection.done.at(12).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(hosts[1].Read(100, 0), ElementsAre(1, 2));
}

TEST(Moves, WholeShardsAreCopiedByTheRuntime) {
  WorkerHarness w;
  w.PutLater(10, 100, 2);
  v1::Command command;
  auto* receive = AddReceive(&command, 11, 200, 2);
  receive->set_memory_kind("pinned_host");
  auto* piece = receive->add_pieces();
  Set(piece->mutable_to(), {0}, {2});
  Set(piece->mutable_from(), {0}, {2});
  piece->set_source_array(100);
  piece->set_from_host(1);
  w.Do(command);
  receive->set_array(201);
  receive->set_memory_kind("attic");
  command.mutable_move()->set_op(12);
  w.Do(command);
  w.SendChunks(10, {3, 4});
  w.Settle();
  EXPECT_THAT(w.Read(200, 0), ElementsAre(3, 4));
  EXPECT_EQ(w.connection.done.at(12).code(), absl::StatusCode::kInvalidArgument) << "no such memory";
}

// Memory for a shard is allocated before its pieces come. A failure must not end the process.
TEST(Moves, AShardThatNoMachineHasMemoryForIsAnErrorAndNothingElse) {
  TwoWorkers hosts;
  hosts[1].Put(10, 100, {1, 2});
  constexpr int64_t kHalf = int64_t{1} << 50;
  v1::Command command;
  auto* receive = AddReceive(&command, 12, 300, 2 * kHalf);
  AddRemote(receive, 0, kHalf, 77, 1);
  AddRemote(receive, kHalf, kHalf, 78, 1);
  hosts[2].Do(command);
  hosts[1].Do(SendCommand(11, 77, 100, 0, 0, 2, 2));  // shorter than announced
  hosts[1].Do(SendCommand(13, 78, 101, 0, 0, 2, 2));
  hosts.Settle();
  EXPECT_EQ(hosts[2].connection.done.at(12).code(), absl::StatusCode::kResourceExhausted) << hosts[2].connection.done.at(12);
  hosts[2].Put(14, 301, {3});
  hosts.Settle();
  EXPECT_THAT(hosts[2].Read(301, 0), ElementsAre(3));
}

TEST(Moves, RefusesPiecesThatDoNotFit) {
  WorkerHarness w;
  w.Put(10, 100, {1, 2});
  v1::Command outside;
  auto* piece = AddReceive(&outside, 11, 200, 2)->add_pieces();
  Set(piece->mutable_to(), {1}, {2});
  v1::Command gap;
  piece = AddReceive(&gap, 12, 201, 2)->add_pieces();
  Set(piece->mutable_to(), {0}, {1});
  v1::Command source;
  piece = AddReceive(&source, 13, 202, 1)->add_pieces();
  Set(piece->mutable_to(), {0}, {1});
  Set(piece->mutable_from(), {2}, {1});
  piece->set_source_array(100);
  piece->set_from_host(1);
  for (const v1::Command& command : {outside, gap, source}) w.Do(command);
  w.Do(SendCommand(14, 5, 100, 0, 1, 2, 1));
  w.Settle();
  for (uint64_t op : {11, 12, 13, 14}) EXPECT_EQ(w.connection.done.at(op).code(), absl::StatusCode::kInvalidArgument) << op;
}

}  // namespace
}  // namespace pw::worker
