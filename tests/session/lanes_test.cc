// Tests that bytes between a client and workers travel on lanes, not through the controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pathways/v1/lane.pb.h"
#include "tests/session/lane_cluster.h"

namespace pw::session {
namespace {

using controller::TestCluster;
using ::testing::HasSubstr;

constexpr size_t kLarge = 3 << 20;  // several parts

buffers::ArraySpec Everywhere(int devices, buffers::Dims dims) {
  return {buffers::DType::kU8, std::move(dims), buffers::Sharding::Replicated(TestCluster::Devices(0, devices), "")};
}

TEST(LanesTest, TheControllerSeesNoByteOfLargeArrays) {
  LaneCluster t(2, 2);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  const std::string text = LaneCluster::Pattern(kLarge);
  ASSERT_TRUE(t.Put(1, TestCluster::Rows(0, 4, {4, kLarge / 4}), text).ok());
  ASSERT_TRUE(t.session
                  ->Copy({2}, {1}, std::vector<DeviceId>{DeviceId(3), DeviceId(2), DeviceId(1), DeviceId(0)}, std::nullopt,
                         CopySemantics::kAlwaysCopy)
                  .ok());
  EXPECT_TRUE(t.Ready({1, 2}).ok());
  EXPECT_EQ(*t.FetchRows(1), text);
  EXPECT_EQ(*t.FetchRows(2), text);
  EXPECT_EQ(t.BytesThroughController(), 0);
  EXPECT_EQ(t.remote->lanes().buffers().size(), 0) << "the client keeps nothing that has arrived";
  EXPECT_EQ(t.remote->lanes().num_fetches(), 0);
}

TEST(LanesTest, SmallArraysComeWithTheirRequests) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.Connect().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  EXPECT_EQ(*t.Fetch(1), "abcd");
  EXPECT_EQ(t.BytesThroughController(), 8);
  EXPECT_EQ(t.hosts[0]->lanes_accepted, 0);
}

TEST(LanesTest, AReplicatedArrayCrossesALinkOncePerHost) {
  LaneCluster t(2, 2);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  const std::string text = LaneCluster::Pattern(kLarge);
  const uint64_t before = t.network.totals().bytes_sent;
  ASSERT_TRUE(t.Put(1, Everywhere(4, {kLarge}), text).ok());
  EXPECT_TRUE(t.Ready({1}).ok());
  const uint64_t sent = t.network.totals().bytes_sent - before;
  EXPECT_GE(sent, 2 * kLarge);
  EXPECT_LT(sent, 2 * kLarge + (64 << 10));
  EXPECT_EQ(*t.Fetch(1), text);
}

TEST(LanesTest, AShardedArraySendsEachHostItsOwnPart) {
  LaneCluster t(2, 2);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  const uint64_t before = t.network.totals().bytes_sent;
  ASSERT_TRUE(t.Put(1, TestCluster::Rows(0, 4, {4, kLarge / 4}), LaneCluster::Pattern(kLarge)).ok());
  EXPECT_TRUE(t.Ready({1}).ok());
  EXPECT_LT(t.network.totals().bytes_sent - before, kLarge + (64 << 10));
}

TEST(LanesTest, BytesMayBeStoredAfterTheArrayIsMade) {
  LaneCluster t(2, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  const HostShard source{9, {buffers::DType::kU8, {100}, std::nullopt}, {0, 1}};
  ASSERT_TRUE(t.session->MakeArray(1, Everywhere(2, {100}), {source}).ok());
  t.Run();
  ASSERT_TRUE(t.session->StoreHostBuffer(9, Bytes::Copy(LaneCluster::Pattern(100))).ok());
  EXPECT_TRUE(t.Ready({1}).ok());
  EXPECT_EQ(*t.Fetch(1), LaneCluster::Pattern(100));
}

TEST(LanesTest, StridesAreHonouredInBothDirections) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  // [2, 16] bytes, column by column.
  const HostShard source{9, {buffers::DType::kU8, {2, 16}, buffers::Dims({1, 2})}, {0}};
  std::string columns;
  for (char c = 'a'; c < 'a' + 16; ++c) columns += {c, static_cast<char>(c - 'a' + 'A')};
  ASSERT_TRUE(t.session->StoreHostBuffer(9, Bytes::Copy(columns)).ok());
  ASSERT_TRUE(t.session->MakeArray(1, TestCluster::Single(0, {2, 16}), {source}).ok());
  EXPECT_EQ(*t.Fetch(1), "abcdefghijklmnopABCDEFGHIJKLMNOP");
  ASSERT_TRUE(t.AwaitStatus([&](auto done) { t.session->CopyToHostBuffer(1, 77, buffers::Dims({1, 2}), std::move(done)); }).ok());
  auto bytes = t.Await<Bytes>([&](auto done) { t.session->LookupHostBuffer(77, std::move(done)); });
  EXPECT_EQ(bytes->view(), columns);
  EXPECT_EQ(t.BytesThroughController(), 0);
}

TEST(LanesTest, ABufferThatFailsIsWhatItsArrayBecomes) {
  LaneCluster t(2, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  for (const bool first : {false, true}) {
    const Handle array = first ? 1 : 2, buffer = 10 + array;
    const HostShard source{buffer, {buffers::DType::kU8, {100}, std::nullopt}, {0, 1}};
    if (first) t.session->FailHostBuffer(buffer, absl::DataLossError("the file has gone"));
    ASSERT_TRUE(t.session->MakeArray(array, Everywhere(2, {100}), {source}).ok());
    t.Run();
    if (!first) t.session->FailHostBuffer(buffer, absl::DataLossError("the file has gone"));
    EXPECT_THAT(t.Ready({array}).message(), HasSubstr("the file has gone"));
  }
  ASSERT_TRUE(t.Put(3, Everywhere(2, {100}), LaneCluster::Pattern(100)).ok());
  EXPECT_TRUE(t.Ready({3}).ok()) << "nothing else is affected";
  EXPECT_EQ(t.remote->lanes().buffers().size(), 0);
}

TEST(LanesTest, ABufferOfTheWrongSizeFailsItsArray) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  const HostShard source{9, {buffers::DType::kU8, {100}, std::nullopt}, {0}};
  ASSERT_TRUE(t.session->StoreHostBuffer(9, Bytes::Copy(std::string(99, 'x'))).ok());
  ASSERT_TRUE(t.session->MakeArray(1, TestCluster::Single(0, {100}), {source}).ok());
  EXPECT_THAT(t.Ready({1}).message(), HasSubstr("99"));
  EXPECT_EQ(t.remote->lanes().buffers().size(), 0);
}

TEST(LanesTest, AnArrayThatIsRefusedLeavesNoBytesBehind) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(77, {100}), LaneCluster::Pattern(100)).ok());
  EXPECT_THAT(t.Ready({1}).message(), HasSubstr("77"));
  EXPECT_EQ(t.remote->lanes().buffers().size(), 0);
}

TEST(LanesTest, AnErrorIsReadInsteadOfBytes) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  ASSERT_TRUE(t.session->MakeErrorArray(1, TestCluster::Single(0, {100}), absl::DataLossError("it never was")).ok());
  EXPECT_THAT(t.Fetch(1).status().message(), HasSubstr("it never was"));
  EXPECT_EQ(t.remote->lanes().num_fetches(), 0);
}

TEST(LanesTest, ALaneThatBreaksGoesOnWhereItWas) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  const std::string text = LaneCluster::Pattern(kLarge);
  for (int events = 0; events < 120; events += 7) {
    const Handle array = 10 + events;
    ASSERT_TRUE(t.Put(array, TestCluster::Single(0, {kLarge}), text).ok());
    std::optional<absl::StatusOr<Bytes>> fetched;
    t.session->CopyToHostBuffer(array, 1000 + array, std::nullopt, [](const absl::Status&) {});
    t.session->LookupHostBuffer(1000 + array, [&](absl::StatusOr<Bytes> bytes) { fetched = std::move(bytes); });
    for (int i = 0; i < events; ++i) t.executor.RunOne();
    t.remote->lanes().Break(HostId(0));
    t.Run();
    t.timers.Advance(absl::Seconds(1));
    ASSERT_TRUE(fetched.has_value()) << events;
    ASSERT_TRUE(fetched->ok()) << fetched->status();
    ASSERT_TRUE((*fetched)->view() == text);
    ASSERT_TRUE(t.session->DeleteHostBuffer(1000 + array).ok());
    ASSERT_TRUE(t.session->Destruct({array}).ok());
  }
  EXPECT_GT(t.hosts[0]->lanes_accepted, 5);
}

TEST(LanesTest, AHostThatCannotBeReachedFailsWhatWaitsForIt) {
  LaneCluster t(2, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  t.hosts[1]->StopListening();
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {100}), LaneCluster::Pattern(100)).ok());
  ASSERT_TRUE(t.Put(2, TestCluster::Single(1, {100}), LaneCluster::Pattern(100)).ok());
  EXPECT_TRUE(t.Ready({1}).ok());
  std::optional<absl::Status> ready;
  t.session->WhenReady({2}, [&](absl::Status status) { ready = std::move(status); });
  t.timers.Advance(absl::Seconds(29));
  EXPECT_FALSE(ready.has_value());
  t.timers.Advance(absl::Seconds(2));
  ASSERT_TRUE(ready.has_value());
  EXPECT_THAT(ready->message(), HasSubstr("cannot connect to host 'h1'"));
  EXPECT_EQ(t.remote->lanes().buffers().size(), 0);
  EXPECT_EQ(*t.Fetch(1), LaneCluster::Pattern(100));
}

TEST(LanesTest, AHostThatIsLostFailsWhatWasComingFromIt) {
  LaneCluster t(2, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {100}), LaneCluster::Pattern(100)).ok());
  ASSERT_TRUE(t.Put(2, TestCluster::Single(1, {100}), LaneCluster::Pattern(100)).ok());
  EXPECT_TRUE(t.Ready({1, 2}).ok());
  t.hosts[1]->Die();
  EXPECT_FALSE(t.Fetch(2).ok());
  EXPECT_EQ(*t.Fetch(1), LaneCluster::Pattern(100));
  EXPECT_EQ(t.remote->lanes().num_fetches(), 0);
  t.hosts.pop_back();
}

TEST(LanesTest, TheEndOfASessionFreesWhatWasOnItsWay) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {kLarge}), LaneCluster::Pattern(kLarge)).ok());
  for (int i = 0; i < 30; ++i) t.executor.RunOne();
  t.session = nullptr;
  t.remote = nullptr;
  EXPECT_EQ(t.Arrays(), 0);
  EXPECT_EQ(t.hosts[0]->live_buffers(), 0);
}

TEST(LanesTest, AWorkerAsksForNoMoreThanItHasRoomFor) {
  worker::Limits limits;
  limits.staging_bytes = 4 << 10;
  LaneCluster t(1, 1, limits);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  std::vector<Handle> arrays;
  for (Handle h = 1; h <= 20; ++h) {
    ASSERT_TRUE(t.Put(h, TestCluster::Single(0, {1500}), LaneCluster::Pattern(1500, static_cast<int>(h))).ok());
    arrays.push_back(h);
  }
  EXPECT_TRUE(t.Ready(arrays).ok());
  for (Handle h : arrays) EXPECT_EQ(*t.Fetch(h), LaneCluster::Pattern(1500, static_cast<int>(h)));
  ASSERT_TRUE(t.Put(100, TestCluster::Single(0, {5000}), LaneCluster::Pattern(5000)).ok());
  EXPECT_EQ(t.Ready({100}).code(), absl::StatusCode::kResourceExhausted);
}

// A connection to a worker's lane address by a stranger.
class LaneStranger final : public net::Connection::Handler {
 public:
  LaneStranger(LaneCluster* t, const std::string& address) : t_(*t) {
    t_.transport.Connect(address, absl::Seconds(1), [this](auto connection) { connection_ = *std::move(connection); });
    t_.Run();
    connection_->Start(this);
  }
  void Say(const ::pathways::v1::LaneMessage& message, const std::string& payload = "") {
    connection_->Send(message.SerializeAsString(), {Bytes::Copy(payload)}, net::Lane::kBulk);
    t_.Run();
  }
  void Hello(uint64_t session, const std::string& key) {
    ::pathways::v1::LaneMessage message;
    message.mutable_hello()->set_version(1);
    message.mutable_hello()->set_session(session);
    message.mutable_hello()->set_key(key);
    Say(message);
  }
  void OnFrame(net::Frame) override { ++frames; }
  void OnClosed(const absl::Status&) override { closed = true; }
  int frames = 0;
  bool closed = false;

 private:
  LaneCluster& t_;
  std::unique_ptr<net::Connection> connection_;
};

TEST(LanesTest, AStrangerLearnsNothing) {
  LaneCluster t(1, 1);
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {100}), LaneCluster::Pattern(100)).ok());
  EXPECT_TRUE(t.Ready({1}).ok());
  const uint64_t session = t.session->id().v;
  const std::string address = t.hosts[0]->lane_address();
  const std::string right = "lane key 2";  // the first is the controller's own number (HostJoiner)
  for (const auto& [number, key] : std::vector<std::pair<uint64_t, std::string>>{{session, ""},
                                                                                 {session, "lane key"},
                                                                                 {session, "lane key 1"},
                                                                                 {session, "lane key 3"},
                                                                                 {session + 1, right},
                                                                                 {0, ""}}) {
    LaneStranger stranger(&t, address);
    stranger.Hello(number, key);
    EXPECT_TRUE(stranger.closed) << number << " " << key;
    EXPECT_EQ(stranger.frames, 0);
  }
  LaneStranger pushy(&t, address);
  ::pathways::v1::LaneMessage bytes;
  bytes.mutable_bytes()->set_buffer(1);
  pushy.Say(bytes, "payload");
  EXPECT_TRUE(pushy.closed) << "no payload is taken before a hello";
  EXPECT_EQ(*t.Fetch(1), LaneCluster::Pattern(100)) << "the client has noticed nothing";
  LaneStranger thief(&t, address);
  thief.Hello(session, right);
  EXPECT_FALSE(thief.closed) << "this test knows the key";
}

TEST(LanesTest, WhoSaysNothingIsSentAwaySoon) {
  LaneCluster t(1, 1);
  LaneStranger silent(&t, t.hosts[0]->lane_address());
  t.timers.Advance(absl::Seconds(4));
  EXPECT_FALSE(silent.closed);
  t.timers.Advance(absl::Seconds(2));
  EXPECT_TRUE(silent.closed);
}

}  // namespace
}  // namespace pw::session
