// A worker and clients that speak to it frame by frame.
#include "pathways/worker/lanes/client_lanes.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/v1/lane.pb.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Time that a test moves.
class Hours final : public Timers {
 public:
  void After(absl::Duration delay, Executor* executor, Task task) override {
    waiting_.emplace(now_ + delay, std::pair(executor, std::move(task)));
  }
  void Advance(absl::Duration duration) {
    now_ += duration;
    while (!waiting_.empty() && waiting_.begin()->first <= now_) {
      auto [executor, task] = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      executor->Post(std::move(task));
    }
  }

 private:
  absl::Duration now_;
  std::multimap<absl::Duration, std::pair<Executor*, Task>> waiting_;
};

class LanesOfAWorker {
 public:
  explicit LanesOfAWorker(int64_t staging_bytes = 1000, int64_t device_bytes = 0) {
    WorkerHarness::Setup setup;
    setup.executor = &executor;
    setup.transport = &transport;
    setup.timers = &hours;
    setup.limits.staging_bytes = staging_bytes;
    setup.limits.device_memory_bytes = device_bytes;
    host = std::make_unique<WorkerHarness>(setup);
    listener_ = *transport.Listen("worker:1", [this](std::unique_ptr<net::Connection> c) {
      auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(c));
      host->strand.Post([this, shared] {
        if (host->worker != nullptr) host->worker->lanes().Accept(std::move(*shared));
      });
    });
  }
  ~LanesOfAWorker() {
    host->worker = nullptr;
    executor.RunUntilIdle();
  }
  void Settle() {
    for (int i = 0; i < 3; ++i) {
      executor.RunUntilIdle();
      host->Settle();
    }
  }
  void Advance(absl::Duration duration) {
    hours.Advance(duration);
    Settle();
  }
  void Admit(uint64_t session, absl::Duration grace = absl::ZeroDuration()) {
    v1::Command command;
    command.mutable_admit_lane()->set_session(session);
    command.mutable_admit_lane()->set_key("key " + std::to_string(session));
    command.mutable_admit_lane()->set_grace_seconds(absl::ToDoubleSeconds(grace));
    host->Do(command);
  }
  // Ada has the sessions 1 and 2.
  void SetAdasQuota(int64_t host_bytes) {
    v1::HostConfig config;
    auto* ada = config.add_accounts();
    ada->set_user("ada");
    ada->add_sessions(1);
    ada->add_sessions(2);
    ada->set_host_bytes(host_bytes);
    host->Configure(config);
    Settle();
  }
  // Puts a buffer of floats on one device. The op has the number of the buffer.
  void Put(uint64_t buffer, int64_t elements, uint64_t session = 1) {
    v1::Command command = host->PutCommand(buffer, buffer, elements, {0}, session);
    command.mutable_put()->set_lane_buffer(buffer);
    host->Do(command);
    Settle();
  }
  void Fetch(uint64_t name, uint64_t array, uint64_t session = 1) {
    v1::Command command;
    auto& fetch = *command.mutable_fetch();
    fetch.set_fetch(name + 500);
    fetch.set_array(array);
    fetch.set_lane_fetch(name);
    fetch.set_session(session);
    host->Do(command);
    Settle();
  }
  std::map<uint64_t, absl::Status>& done() { return host->connection.done; }
  ClientLanes& lanes() { return host->worker->lanes(); }

  ManualExecutor executor;
  Hours hours;
  net::MemoryNetwork network;
  net::MemoryTransport transport{&network, &executor};
  std::unique_ptr<WorkerHarness> host;

 private:
  std::unique_ptr<net::Listener> listener_;
};

class TestClient final : public net::Connection::Handler {
 public:
  explicit TestClient(LanesOfAWorker* worker, uint64_t session = 1, std::vector<std::pair<uint64_t, uint64_t>> begun = {})
      : w_(*worker) {
    w_.transport.Connect("worker:1", absl::Seconds(1), [this](auto connection) {
      connection_ = *std::move(connection);
      connection_->Start(this);
    });
    w_.Settle();
    v1::LaneMessage message;
    auto& hello = *message.mutable_hello();
    hello.set_version(1);
    hello.set_session(session);
    hello.set_key("key " + std::to_string(session));
    for (const auto& [fetch, received] : begun) {
      hello.add_begun()->set_fetch(fetch);
      hello.mutable_begun(hello.begun_size() - 1)->set_received(received);
    }
    Say(message);
  }
  void Say(const v1::LaneMessage& message, const std::string& payload = "") {
    connection_->Send(message.SerializeAsString(), {Bytes::Copy(payload)}, net::Lane::kBulk);
    w_.Settle();
  }
  void SendPart(uint64_t buffer, uint64_t offset, uint64_t total, const std::string& payload) {
    v1::LaneMessage message;
    message.mutable_bytes()->set_buffer(buffer);
    message.mutable_bytes()->set_offset(offset);
    message.mutable_bytes()->set_total_bytes(total);
    Say(message, payload);
  }
  void SayTaken(uint64_t fetch) {
    v1::LaneMessage message;
    message.mutable_taken()->add_fetches(fetch);
    Say(message);
  }
  void SayCallTaken(uint64_t call) {
    v1::LaneMessage message;
    message.mutable_taken()->add_calls(call);
    Say(message);
  }
  void Answer(uint64_t call, const std::vector<float>& result) {
    v1::LaneMessage message;
    message.mutable_answer()->set_call(call);
    message.mutable_answer()->add_result_bytes(result.size() * sizeof(float));
    Say(message, FloatBytes(result));
  }
  void Break() {
    connection_ = nullptr;
    w_.Settle();
  }
  std::vector<std::string> Said() { return std::exchange(said_, {}); }
  bool closed = false;

 private:
  void OnFrame(net::Frame frame) override {
    v1::LaneMessage m;
    ASSERT_TRUE(m.ParseFromString(frame.header));
    if (m.has_welcome()) said_.push_back("welcome");
    if (m.has_want())
      said_.push_back(absl::StrCat("want ", m.want().buffer(), " ", m.want().total_bytes(), " from ", m.want().offset()));
    if (m.has_bytes())
      said_.push_back(absl::StrCat("bytes ", m.bytes().fetch(), " at ", m.bytes().offset(), " ", frame.payload.size()));
    if (m.has_failed()) said_.push_back(absl::StrCat("failed ", m.failed().fetch()));
    if (m.has_call())
      said_.push_back(absl::StrCat("call ", m.call().call(), " of ", m.call().callback(), ": ", frame.payload.size()));
    for (uint64_t call : m.taken().calls()) said_.push_back(absl::StrCat("taken ", call));
  }
  void OnClosed(const absl::Status&) override { closed = true; }

  LanesOfAWorker& w_;
  std::vector<std::string> said_;
  std::unique_ptr<net::Connection> connection_;
};

const std::vector<float> kValues = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
std::string Text() { return FloatBytes(kValues); }  // 40 bytes

TEST(ClientLanesTest, ABufferIsAskedForAndBecomesAnArray) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient client(&w);
  EXPECT_THAT(client.Said(), ElementsAre("welcome"));
  w.Put(7, 10);
  EXPECT_THAT(client.Said(), ElementsAre("want 7 40 from 0"));
  client.SendPart(7, 0, 40, Text().substr(0, 24));
  EXPECT_FALSE(w.done().contains(7));
  client.SendPart(7, 24, 40, Text().substr(24));
  EXPECT_TRUE(w.done().at(7).ok());
  EXPECT_EQ(w.host->Read(7, 0), kValues);
  EXPECT_EQ(w.lanes().asked_bytes(), 0);
}

TEST(ClientLanesTest, WhichOfCommandAndLaneComesFirstDoesNotMatter) {
  LanesOfAWorker w;
  w.Put(7, 10);
  EXPECT_EQ(w.lanes().asked_bytes(), 0) << "nothing is kept for a client without a lane";
  w.Admit(1);
  TestClient client(&w);
  EXPECT_THAT(client.Said(), ElementsAre("welcome", "want 7 40 from 0"));
}

TEST(ClientLanesTest, ALaneThatBreaksIsAskedForTheRest) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient first(&w);
  w.Put(7, 10);
  first.SendPart(7, 0, 40, Text().substr(0, 24));
  first.Break();
  TestClient second(&w);
  EXPECT_THAT(second.Said(), ElementsAre("welcome", "want 7 40 from 24"));
  second.SendPart(7, 24, 40, Text().substr(24));
  EXPECT_EQ(w.host->Read(7, 0), kValues);
}

TEST(ClientLanesTest, AnotherConnectionTakesThePlaceOfTheFirst) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient first(&w);
  w.Put(7, 10);
  TestClient second(&w);
  EXPECT_TRUE(first.closed);
  EXPECT_THAT(second.Said(), ElementsAre("welcome", "want 7 40 from 0"));
  second.SendPart(7, 0, 40, Text());
  EXPECT_EQ(w.host->Read(7, 0), kValues);
}

TEST(ClientLanesTest, SessionsTakeTurnsForTheRoomThatThereIs) {
  LanesOfAWorker w(100);
  w.Admit(1);
  w.Admit(2);
  TestClient one(&w, 1), two(&w, 2);
  for (uint64_t buffer : {11, 12, 13}) w.Put(buffer, 10, 1);
  w.Put(21, 10, 2);
  EXPECT_THAT(one.Said(), ElementsAre("welcome", "want 11 40 from 0")) << "half of the room is all that one session gets";
  EXPECT_THAT(two.Said(), ElementsAre("welcome", "want 21 40 from 0"));
  EXPECT_EQ(w.lanes().asked_bytes(), 80);
  one.SendPart(11, 0, 40, Text());
  EXPECT_THAT(one.Said(), ElementsAre("want 12 40 from 0"));
  w.Put(31, 26, 1);
  EXPECT_EQ(w.done().at(31).code(), absl::StatusCode::kResourceExhausted) << "more than there ever is";
}

TEST(ClientLanesTest, ALargeOneHasItsTurn) {
  LanesOfAWorker w(100);
  w.Admit(1);
  w.Admit(2);
  TestClient one(&w, 1), two(&w, 2);
  w.Put(11, 10, 1);
  w.Put(21, 24, 2);  // fits alone
  w.Put(12, 10, 1);
  EXPECT_THAT(one.Said(), ElementsAre("welcome", "want 11 40 from 0"));
  EXPECT_THAT(two.Said(), ElementsAre("welcome"));
  one.SendPart(11, 0, 40, Text());
  EXPECT_THAT(two.Said(), ElementsAre("want 21 96 from 0"));
  EXPECT_THAT(one.Said(), IsEmpty()) << "it waits for the large one";
  two.SendPart(21, 0, 96, std::string(96, 'x'));
  EXPECT_THAT(one.Said(), ElementsAre("want 12 40 from 0"));
}

TEST(ClientLanesTest, BuffersOfAUsersSessionsFitTheQuota) {
  LanesOfAWorker w;
  w.SetAdasQuota(80);
  for (uint64_t session : {1, 2, 3}) w.Admit(session);
  TestClient one(&w, 1), two(&w, 2), bobs(&w, 3);
  w.Put(11, 10, 1);
  w.Put(21, 10, 2);
  w.Put(12, 10, 1);
  w.Put(31, 10, 3);
  EXPECT_THAT(one.Said(), ElementsAre("welcome", "want 11 40 from 0"));
  EXPECT_THAT(two.Said(), ElementsAre("welcome", "want 21 40 from 0"));
  EXPECT_THAT(bobs.Said(), ElementsAre("welcome", "want 31 40 from 0")) << "Bob does not wait for Ada";
  const v1::HealthReport health = w.host->worker->Health();
  EXPECT_EQ(health.users(0).host_bytes(), 80);
  ASSERT_EQ(health.quota_waits_size(), 1);
  EXPECT_EQ(health.quota_waits(0).session(), 1u);
  EXPECT_EQ(health.quota_waits(0).position(), 1u);
  EXPECT_THAT(health.quota_waits(0).why(), HasSubstr("user 'ada' has 80 B of 80 B"));
  one.SendPart(11, 0, 40, Text());
  EXPECT_THAT(one.Said(), ElementsAre("want 12 40 from 0"));
  EXPECT_EQ(w.host->Read(11, 0), kValues);
  w.Put(22, 21, 2);
  EXPECT_EQ(w.done().at(22).code(), absl::StatusCode::kResourceExhausted) << "more than the quota ever has";
  w.Put(23, 10, 2);
  EXPECT_THAT(two.Said(), IsEmpty());
  w.SetAdasQuota(120);
  EXPECT_THAT(two.Said(), ElementsAre("want 23 40 from 0")) << "a larger quota is in force at once";
  for (uint64_t session : {1, 2, 3}) w.host->ReleaseOwner(session);
  w.Settle();
  EXPECT_EQ(w.host->worker->charged_bytes(), 0);
}

TEST(ClientLanesTest, ABufferThatWaitsForTheQuotaKeepsNothingWaitingForMemory) {
  LanesOfAWorker w(1000, 40);
  w.SetAdasQuota(40);
  for (uint64_t session : {1, 3}) w.Admit(session);
  TestClient one(&w, 1), bobs(&w, 3);
  w.Put(11, 10, 1);
  one.SendPart(11, 0, 40, Text());  // the device is full
  w.Put(31, 10, 3);                 // something goes on
  w.Put(12, 10, 1);
  one.SendPart(12, 0, 40, Text());
  w.Put(13, 10, 1);
  EXPECT_THAT(one.Said(), ElementsAre("welcome", "want 11 40 from 0", "want 12 40 from 0"));
  EXPECT_FALSE(w.done().contains(12)) << "the other session may free memory";
  v1::Command command;
  command.mutable_fail_lane()->set_session(3);
  w.host->Do(command);
  w.Settle();
  EXPECT_EQ(w.done().at(12).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(one.Said(), ElementsAre("want 13 40 from 0"));
}

TEST(ClientLanesTest, AClientThatStaysAwayHoldsNoMemory) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient first(&w);
  w.Put(7, 10);
  first.SendPart(7, 0, 40, Text().substr(0, 24));
  first.Break();
  w.Advance(absl::Seconds(59));
  EXPECT_EQ(w.lanes().asked_bytes(), 40);
  w.Advance(absl::Seconds(1));
  EXPECT_EQ(w.lanes().asked_bytes(), 0);
  TestClient second(&w);
  EXPECT_THAT(second.Said(), ElementsAre("welcome", "want 7 40 from 0")) << "nothing is lost: the client has it all";
  second.SendPart(7, 0, 40, Text());
  EXPECT_EQ(w.host->Read(7, 0), kValues);
}

TEST(ClientLanesTest, WhatIsFetchedIsKeptUntilTheClientHasIt) {
  LanesOfAWorker w;
  w.Admit(1);
  w.host->Put(1, 7, kValues, {0});
  w.Fetch(30, 7);
  EXPECT_TRUE(w.host->connection.fetched.at(530).on_lane());
  TestClient first(&w);
  EXPECT_THAT(first.Said(), ElementsAre("welcome", "bytes 30 at 0 40"));
  first.Break();
  TestClient second(&w, 1, {{30, 16}});
  EXPECT_THAT(second.Said(), ElementsAre("welcome", "bytes 30 at 16 24"));
  second.SayTaken(30);
  second.Break();
  TestClient third(&w);
  EXPECT_THAT(third.Said(), ElementsAre("welcome"));
}

TEST(ClientLanesTest, WhatIsFetchedIsGivenUpWhenTheClientStaysAway) {
  LanesOfAWorker w;
  w.Admit(1);
  w.host->Put(1, 7, kValues, {0});
  TestClient first(&w);
  w.Fetch(30, 7);
  first.Break();
  w.Advance(absl::Seconds(61));
  TestClient second(&w);
  EXPECT_THAT(second.Said(), ElementsAre("welcome", "failed 30"));
  w.Fetch(31, 7);
  EXPECT_THAT(second.Said(), ElementsAre("bytes 31 at 0 40"));
}

TEST(ClientLanesTest, BytesThatNobodyAskedForEndTheLane) {
  LanesOfAWorker w(100);
  w.Admit(1);
  TestClient client(&w);
  w.Put(11, 10);
  w.Put(12, 10);  // waits for room
  client.SendPart(12, 0, 40, Text());
  EXPECT_TRUE(client.closed);
  TestClient another(&w);
  another.SendPart(11, 8, 40, Text().substr(8));
  EXPECT_TRUE(another.closed) << "this does not continue";
}

TEST(ClientLanesTest, AClientThatCannotConnectFailsWhatWaitsForIt) {
  LanesOfAWorker w;
  w.Admit(1);
  w.Put(7, 10);
  v1::Command command;
  command.mutable_fail_lane()->set_session(1);
  *command.mutable_fail_lane()->mutable_status() = ToProto(absl::UnavailableError("no way there"));
  w.host->Do(command);
  w.Settle();
  EXPECT_THAT(w.done().at(7).message(), HasSubstr("no way there"));
}

TEST(ClientLanesTest, AClientMayHaveNoBytesAfterAll) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient client(&w);
  w.Put(7, 10);
  v1::LaneMessage message;
  message.mutable_failed()->set_buffer(7);
  *message.mutable_failed()->mutable_status() = ToProto(absl::DataLossError("the file has gone"));
  client.Say(message);
  EXPECT_THAT(w.done().at(7).message(), HasSubstr("the file has gone"));
  EXPECT_EQ(w.lanes().asked_bytes(), 0);
  client.SendPart(7, 0, 40, Text());
  EXPECT_FALSE(client.closed) << "what was on its way does no harm";
}

TEST(ClientLanesTest, TheEndOfASessionIsTheEndOfItsLane) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient client(&w);
  w.Put(7, 10);
  w.host->ReleaseOwner(1);
  w.Settle();
  EXPECT_TRUE(client.closed);
  EXPECT_EQ(w.lanes().asked_bytes(), 0);
  EXPECT_EQ(w.lanes().clients(), 0);
  w.Admit(1);
  TestClient late(&w);
  EXPECT_TRUE(late.closed);
  EXPECT_EQ(w.lanes().connections(), 0);
}

TEST(ClientLanesTest, StrangersAreFewAndSoonGone) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient stranger(&w, 2);
  EXPECT_TRUE(stranger.closed);
  EXPECT_THAT(stranger.Said(), IsEmpty());
  std::vector<std::unique_ptr<net::Connection>> silent;
  for (size_t i = 0; i < 2 * net::Strangers<uint64_t>::kMost; ++i) {
    w.transport.Connect("worker:1", absl::Seconds(1), [&](auto connection) { silent.push_back(*std::move(connection)); });
    w.Settle();
  }
  EXPECT_LE(w.lanes().connections(), net::Strangers<uint64_t>::kMost);
  TestClient client(&w);
  EXPECT_THAT(client.Said(), ElementsAre("welcome"));
  w.Advance(absl::Seconds(6));
  EXPECT_EQ(w.lanes().connections(), 1);
}

// ---- calls of programs: executable 1 returns what function 77 makes of array 100, on device 0

void BeginCall(LanesOfAWorker& w, uint64_t op, uint64_t result) {
  if (op == 1) {
    w.host->Compile(1, "args=1 outputs=1 dims=4 pathways_host_callback=77", {0});
    w.host->Put(90, 100, {1, 2, 3, 4}, {0});
    w.Settle();
  }
  w.host->Execute(op, 1, {100}, {result});
  w.Settle();
}

TEST(ClientLanesTest, ACallGoesToTheClientAndItsAnswerBack) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient client(&w);
  BeginCall(w, 1, 101);
  EXPECT_THAT(client.Said(), ElementsAre("welcome", "call 1 of 77: 16"));
  client.SayCallTaken(1);
  client.Answer(1, {9, 8, 7, 6});
  EXPECT_THAT(client.Said(), ElementsAre("taken 1"));
  EXPECT_THAT(w.host->Read(101, 0), ElementsAre(9, 8, 7, 6));
  EXPECT_TRUE(w.host->connection.host_calls.empty()) << "the controller hears nothing of it";
}

TEST(ClientLanesTest, ACallOfAClientWithoutLanesGoesToTheController) {
  LanesOfAWorker w;
  BeginCall(w, 1, 101);
  EXPECT_EQ(w.host->connection.host_calls.size(), 1u);
}

TEST(ClientLanesTest, ACallIsSentAgainUntilTheClientHasIt) {
  LanesOfAWorker w;
  w.Admit(1);
  BeginCall(w, 1, 101);
  TestClient first(&w);
  EXPECT_THAT(first.Said(), ElementsAre("welcome", "call 1 of 77: 16"));
  first.Break();
  TestClient second(&w);
  EXPECT_THAT(second.Said(), ElementsAre("welcome", "call 1 of 77: 16"));
  second.SayCallTaken(1);
  second.Break();
  TestClient third(&w);
  EXPECT_THAT(third.Said(), ElementsAre("welcome"));
  third.Answer(1, {9, 8, 7, 6});
  third.Answer(1, {0, 0, 0, 0});
  EXPECT_THAT(third.Said(), ElementsAre("taken 1", "taken 1")) << "an answer that comes again is ignored";
  EXPECT_THAT(w.host->Read(101, 0), ElementsAre(9, 8, 7, 6));
}

TEST(ClientLanesTest, CallsOfAClientThatStaysAwayFail) {
  LanesOfAWorker w;
  w.Admit(1);
  BeginCall(w, 1, 101);
  w.Advance(ClientLanes::kKeptWithoutLane - absl::Seconds(1));
  EXPECT_FALSE(w.done().contains(1));
  w.Advance(absl::Seconds(1));
  EXPECT_EQ(w.done().at(1).code(), absl::StatusCode::kUnavailable);
  TestClient client(&w);
  EXPECT_THAT(client.Said(), ElementsAre("welcome")) << "it runs no call that has failed";
  BeginCall(w, 2, 102);
  EXPECT_THAT(client.Said(), ElementsAre("call 2 of 77: 16"));
  client.Answer(1, {9, 8, 7, 6});
  EXPECT_THAT(client.Said(), ElementsAre("taken 1")) << "it may forget an answer that came too late";
  EXPECT_FALSE(w.done().contains(2));
  client.Break();
  w.Advance(ClientLanes::kKeptWithoutLane);
  EXPECT_EQ(w.done().at(2).code(), absl::StatusCode::kUnavailable);
}

TEST(ClientLanesTest, AClientIsWaitedForAsLongAsItsSessionWaits) {
  LanesOfAWorker w;
  w.Admit(1, absl::Minutes(10));
  BeginCall(w, 1, 101);
  w.Advance(absl::Minutes(10));
  EXPECT_FALSE(w.done().contains(1));
  w.Advance(ClientLanes::kKeptWithoutLane);
  EXPECT_EQ(w.done().at(1).code(), absl::StatusCode::kUnavailable);
}

TEST(ClientLanesTest, CallsEndWithTheirSessionAndWithTheWorker) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient client(&w);
  BeginCall(w, 1, 101);
  w.host->ReleaseOwner(1);
  w.Settle();
  EXPECT_EQ(w.done().at(1).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(client.closed);

  LanesOfAWorker other;
  other.Admit(1);
  BeginCall(other, 1, 101);
  other.host->worker = nullptr;
  other.executor.RunUntilIdle();
  other.host->device_executor.RunUntilIdle();
  EXPECT_EQ(other.host->runtime.live_buffers(), 0) << "the program has ended";
}

TEST(ClientLanesTest, AnAnswerThatDoesNotFitIsAnErrorOrEndsTheLane) {
  LanesOfAWorker w;
  w.Admit(1);
  TestClient client(&w);
  BeginCall(w, 1, 101);
  client.Answer(1, {9});
  EXPECT_THAT(std::string(w.done().at(1).message()), HasSubstr("4 bytes instead of 16"));
  EXPECT_FALSE(client.closed);
  BeginCall(w, 2, 102);
  v1::LaneMessage lying;
  lying.mutable_answer()->set_call(2);
  lying.mutable_answer()->add_result_bytes(16);
  client.Say(lying, "less");
  EXPECT_TRUE(client.closed);
  EXPECT_FALSE(w.done().contains(2)) << "the client may answer on its next lane";
}

}  // namespace
}  // namespace pw::worker
