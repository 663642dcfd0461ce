// Tests which clients the session service admits, and how it handles invalid messages.
#include <deque>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pathways/session/wire.h"
#include "tests/session/served_cluster.h"
#include "xla/compile_options.pb.h"

namespace pw::session {
namespace {

using ::pathways::v1::ClientFrame;
using ::pathways::v1::ControllerFrame;
using ::testing::HasSubstr;

// A client that sends arbitrary frames.
class Stranger : private net::Connection::Handler {
 public:
  explicit Stranger(ServedCluster* cluster) : t_(*cluster) {
    t_.transport.Connect(t_.service_address, absl::Seconds(1), [this](auto connection) {
      ASSERT_TRUE(connection.ok()) << connection.status();
      connection_ = *std::move(connection);
      connection_->Start(this);
    });
    t_.Run();
  }
  void Say(const std::string& header, const std::string& payload = "") {
    connection_->Send(header, payload.empty() ? std::vector<Bytes>() : std::vector<Bytes>{Bytes::Copy(payload)},
                      net::Lane::kUrgent);
    t_.Run();
  }
  void Say(const ClientFrame& frame, const std::string& payload = "") { Say(frame.SerializeAsString(), payload); }
  void Hello() {
    ClientFrame frame;
    frame.mutable_hello()->set_version(1);
    Say(frame);
    ASSERT_TRUE(heard.back().has_welcome());
  }
  // Returns the status with which the controller ended the session, if it did.
  absl::Status ended() const { return heard.empty() ? absl::OkStatus() : StatusFrom(heard.back().ended()); }

  std::vector<ControllerFrame> heard;
  uint64_t answers = 0;  // and no other events
  bool closed = false;

 private:
  void OnFrame(net::Frame frame) override {
    ASSERT_TRUE(heard.emplace_back().ParseFromString(frame.header));
    for (const auto& event : heard.back().events()) answers += event.has_answer();
  }
  void OnClosed(const absl::Status&) override { closed = true; }

  ServedCluster& t_;
  std::unique_ptr<net::Connection> connection_;
};

TEST(SessionServiceTest, AConnectionBeginsWithAHelloOfThisVersion) {
  ServedCluster t;
  Stranger silent(&t), newer(&t);
  ClientFrame frame;
  frame.set_ack(1);
  silent.Say(frame);
  EXPECT_THAT(silent.ended().message(), HasSubstr("must begin with a hello"));
  EXPECT_TRUE(silent.closed);
  frame.mutable_hello()->set_version(2);
  newer.Say(frame);
  EXPECT_THAT(newer.ended().message(), HasSubstr("speaks version 2"));
  EXPECT_TRUE(newer.closed);
  EXPECT_EQ(t.service->num_sessions(), 0);
}

TEST(SessionServiceTest, OnlyWhoeverShowsItsKeyResumesASession) {
  ServedCluster t;
  Stranger first(&t), thief(&t), itself(&t);
  first.Hello();
  const auto& welcome = first.heard.back().welcome();
  ClientFrame frame;
  frame.mutable_hello()->set_version(1);
  frame.mutable_hello()->set_session(welcome.session());
  frame.mutable_hello()->set_key("key 2");
  thief.Say(frame);
  EXPECT_EQ(thief.ended().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(first.closed);
  frame.mutable_hello()->set_key(welcome.key());
  itself.Say(frame);
  EXPECT_TRUE(itself.heard.back().has_welcome());
  EXPECT_TRUE(first.closed) << "a session has one connection";
  EXPECT_EQ(t.service->num_sessions(), 1);
}

TEST(SessionServiceTest, AHangEndsTheSessionOfAClientThatHasAskedForThat) {
  ServedCluster t;
  Stranger asks(&t), asks_not(&t);
  ClientFrame hello;
  hello.mutable_hello()->set_version(1);
  hello.mutable_hello()->set_ends_on_hang(true);
  asks.Say(hello);
  asks_not.Hello();
  t.service->OnHang(SessionId(99), "nobody's computation hangs");
  t.service->OnHang(SessionId(asks_not.heard.back().welcome().session()), "computation 6 hangs");
  t.service->OnHang(SessionId(asks.heard.back().welcome().session()), "computation 7 hangs");
  t.Run();
  EXPECT_EQ(asks.ended(), absl::DeadlineExceededError("computation 7 hangs"));
  EXPECT_TRUE(asks.closed);
  EXPECT_FALSE(asks_not.closed);
  EXPECT_EQ(t.service->num_sessions(), 1);
}

TEST(SessionServiceTest, WhoeverComesBackTooLateIsToldSoIfItShowsItsKey) {
  ServedCluster t(1, 4, absl::Minutes(10));
  std::optional<Stranger> first(std::in_place, &t);
  first->Hello();
  const ::pathways::v1::SessionWelcome welcome = first->heard.back().welcome();
  EXPECT_EQ(welcome.grace_seconds(), 600);
  first.reset();
  t.Run();
  t.timers.Advance(absl::Minutes(11));
  EXPECT_EQ(t.service->num_sessions(), 0);
  Stranger late(&t), thief(&t);
  ClientFrame frame;
  frame.mutable_hello()->set_version(1);
  frame.mutable_hello()->set_session(welcome.session());
  frame.mutable_hello()->set_key(welcome.key());
  late.Say(frame);
  EXPECT_EQ(late.ended().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(late.ended().message(), HasSubstr("was kept for 10m without a connection to its client"));
  frame.mutable_hello()->set_key("key 2");
  thief.Say(frame);
  EXPECT_THAT(thief.ended().message(), HasSubstr("is not there any more"));
}

TEST(SessionServiceTest, AnOperatorsQuestionIsNotWaitedFor) {
  ServedCluster t(1, 4, absl::Minutes(10));
  std::optional<Stranger> asks(std::in_place, &t);
  ClientFrame frame;
  frame.mutable_hello()->set_version(1);
  frame.mutable_hello()->set_observer(true);
  asks->Say(frame);
  EXPECT_EQ(asks->heard.back().welcome().grace_seconds(), 0);
  EXPECT_EQ(t.service->num_sessions(), 1);
  asks.reset();
  t.Run();
  EXPECT_EQ(t.service->num_sessions(), 0);
}

TEST(SessionServiceTest, ARequestThatCannotBeReadEndsItsSessionAlone) {
  ServedCluster t;
  ASSERT_TRUE(t.Connect().ok());
  ASSERT_TRUE(t.Put(1, ServedCluster::Single(0, {4}), "abcd").ok());
  Stranger stranger(&t);
  stranger.Hello();
  ClientFrame frame;
  frame.set_first(1);
  frame.add_requests()->mutable_destruct();
  frame.add_requests()->mutable_make_array()->mutable_spec()->set_dtype(11);
  frame.add_requests()->mutable_await_ready();
  stranger.Say(frame);
  EXPECT_EQ(stranger.ended().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(stranger.ended().message(), HasSubstr("request 2: a sharding names no device"));
  EXPECT_TRUE(stranger.closed);
  EXPECT_EQ(t.service->num_sessions(), 1);
  EXPECT_EQ(*t.Fetch(1), "abcd");
}

TEST(SessionServiceTest, WhoeverSendsBeyondTheWindowWhileItIsSuspendedIsSentAway) {
  ServedCluster t;
  Stranger stranger(&t);
  stranger.Hello();
  const SessionId session(stranger.heard.back().welcome().session());
  ClientFrame frame;
  frame.set_first(1);
  frame.add_requests()->mutable_add_slice()->set_count(1);
  stranger.Say(frame);
  t.cluster->SuspendClient(session, /*resume=*/false, [](auto report) { ASSERT_TRUE(report.ok()) << report.status(); });
  t.Run();
  const std::string payload(1 << 20, 'x');
  frame.mutable_requests(0)->mutable_host_buffer();
  frame.mutable_requests(0)->set_payload_bytes(payload.size());
  uint64_t sent = 0;
  for (uint64_t number = 2; !stranger.closed && sent < 10 * kRequestWindowBytes; ++number, sent += payload.size()) {
    frame.set_first(number);
    stranger.Say(frame, payload);
  }
  EXPECT_EQ(stranger.ended().code(), absl::StatusCode::kResourceExhausted) << stranger.ended();
  EXPECT_THAT(stranger.ended().message(), HasSubstr("sent too much"));
  EXPECT_GT(sent, kRequestWindowBytes);
  EXPECT_LT(sent, 3 * kRequestWindowBytes);
  EXPECT_EQ(t.service->num_sessions(), 0);
}

TEST(SessionServiceTest, AStrangerHasXlaWriteNoFileOnTheHosts) {
  ServedCluster t;
  t.network.SetProofOfAccepted(net::PeerProof::kOpen);  // not known to be of the controller's user
  Stranger stranger(&t);
  stranger.Hello();
  ClientFrame frame;
  frame.set_first(1);
  auto& compile = *frame.add_requests()->mutable_compile();
  compile.set_executable(5);
  compile.set_format("mlir");
  xla::CompileOptionsProto options;
  (*options.mutable_env_option_overrides())["xla_dump_to"].set_string_field("/home/ada");
  compile.set_options(options.SerializeAsString());
  stranger.Say(frame);
  ASSERT_EQ(stranger.answers, 1);
  const auto& answer = stranger.heard.back().events(0).answer();
  EXPECT_EQ(StatusFrom(answer.status()).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(answer.status().message(), HasSubstr("xla_dump_to"));
  EXPECT_FALSE(stranger.closed);
}

TEST(SessionServiceTest, HandlesOfAnotherSessionNameNothing) {
  ServedCluster t;
  ASSERT_TRUE(t.Connect().ok());
  const Handle theirs = t.session->NewHandle();
  ASSERT_TRUE(t.session->MakeErrorArray(theirs, ServedCluster::Single(0, {4}), absl::DataLossError("theirs")).ok());
  t.Run();
  EXPECT_EQ(t.Ready({theirs}).code(), absl::StatusCode::kDataLoss);
  const auto program = t.Compile(ServedCluster::Toy("f", 1, 1, 1), ServedCluster::Devices(0, 1));
  ASSERT_TRUE(program.ok()) << program.status();
  Stranger stranger(&t);
  stranger.Hello();
  ClientFrame frame;
  frame.set_first(1);
  frame.add_requests()->mutable_await_ready()->add_handles(theirs);
  frame.add_requests()->mutable_fetch()->set_array(theirs);
  frame.add_requests()->set_program_text((*program)->handle);
  frame.add_requests()->set_program_module((*program)->handle);
  frame.add_requests()->set_cost_analysis((*program)->handle);
  frame.add_requests()->set_fetch_run(theirs);
  stranger.Say(frame);
  ASSERT_EQ(stranger.answers, 6);
  for (const ControllerFrame& heard : stranger.heard) {
    for (const auto& event : heard.events()) {
      EXPECT_EQ(StatusFrom(event.answer().status()).code(), absl::StatusCode::kNotFound) << event.answer().request();
    }
  }
  // A reply to a call of another's program ends the session that sends it, and nothing else.
  frame.Clear();
  frame.set_first(7);
  frame.add_requests()->mutable_host_call_reply()->set_call(1);
  stranger.Say(frame);
  EXPECT_THAT(stranger.ended().message(), HasSubstr("which was not made"));
  EXPECT_EQ(t.Ready({theirs}).code(), absl::StatusCode::kDataLoss);
}

// Puts an array of 60 KiB by requests `first` and `first` + 1, then fetches it more often than the window of events allows. Returns how
// often.
uint64_t FetchBeyondTheWindow(Stranger& stranger, uint64_t first) {
  ClientFrame put;
  put.set_first(first);
  const int32_t bytes = 60 << 10;
  auto& make = *put.add_requests()->mutable_make_array();
  make.set_result(1);
  ToProto(ServedCluster::Single(0, {bytes}), make.mutable_spec());
  ToProto(HostShard{2, {buffers::DType::kU8, {bytes}, std::nullopt}, {0}}, make.add_sources());
  put.add_requests()->mutable_host_buffer()->set_buffer(2);
  put.mutable_requests(1)->set_payload_bytes(bytes);
  stranger.Say(put, std::string(bytes, 'x'));
  ClientFrame fetch;
  fetch.add_requests()->mutable_fetch()->set_array(1);
  fetch.mutable_requests(0)->mutable_fetch()->set_by_lane_above(bytes);
  const uint64_t fetches = 3 * kEventWindowBytes / bytes;
  for (uint64_t number = first + 2; number < first + 2 + fetches; ++number) {
    fetch.set_first(number);
    stranger.Say(fetch);
  }
  EXPECT_FALSE(stranger.closed) << stranger.ended();
  const uint64_t window = kEventWindowBytes / (bytes + net::ResumableStream::kMessageCost);
  EXPECT_GE(stranger.answers, window);
  EXPECT_LT(stranger.answers, window + 10);
  return fetches;
}

void Acknowledge(Stranger& stranger, uint64_t number) {
  ClientFrame frame;
  frame.set_ack(number);
  stranger.Say(frame);
}

TEST(SessionServiceTest, RequestsOfAClientThatAcknowledgesNothingWaitAndAreCarriedOutLater) {
  ServedCluster t;
  Stranger stranger(&t);
  stranger.Hello();
  const uint64_t fetches = FetchBeyondTheWindow(stranger, 1);
  while (stranger.answers < fetches) {
    const uint64_t before = stranger.answers;
    Acknowledge(stranger, before);
    ASSERT_GT(stranger.answers, before) << "acknowledging what came lets more come";
  }
  EXPECT_EQ(stranger.answers, fetches);
}

TEST(SessionServiceTest, RequestsThatWaitForAnAcknowledgementOutlastASuspension) {
  ServedCluster t;
  Stranger stranger(&t);
  stranger.Hello();
  const SessionId session(stranger.heard.back().welcome().session());
  ClientFrame slice;
  slice.set_first(1);
  slice.add_requests()->mutable_add_slice()->set_count(1);
  stranger.Say(slice);
  FetchBeyondTheWindow(stranger, 2);
  const auto suspend = [&](bool resume) {
    t.cluster->SuspendClient(session, resume, [](auto report) { ASSERT_TRUE(report.ok()) << report.status(); });
    t.Run();
  };
  const uint64_t before = stranger.answers;
  suspend(/*resume=*/false);
  Acknowledge(stranger, before);
  EXPECT_EQ(stranger.answers, before);
  suspend(/*resume=*/true);
  EXPECT_GT(stranger.answers, before) << "the resumed session goes on, although its client says nothing more";
}

TEST(SessionServiceTest, RequestsWithoutANumberThatFollowsAreRefused) {
  ServedCluster t;
  Stranger gap(&t), early(&t);
  gap.Hello();
  ClientFrame frame;
  frame.set_first(5);
  frame.add_requests()->mutable_destruct();
  gap.Say(frame);
  EXPECT_THAT(gap.ended().message(), HasSubstr("begins with message 5"));
  early.Hello();
  ClientFrame acknowledging;
  acknowledging.set_ack(9);
  early.Say(acknowledging);
  EXPECT_THAT(early.ended().message(), HasSubstr("message 9 is acknowledged"));
  EXPECT_EQ(t.service->num_sessions(), 0);
}

TEST(SessionServiceTest, WhatIsNoFrameClosesItsConnection) {
  ServedCluster t;
  Stranger noise(&t), surplus(&t), liar(&t);
  noise.Say("\xff\xff not a message");
  EXPECT_TRUE(noise.closed);
  ClientFrame frame;
  frame.mutable_hello()->set_version(1);
  surplus.Say(frame, "bytes that nobody announced");
  EXPECT_TRUE(surplus.closed);
  frame.Clear();
  frame.set_first(1);
  frame.add_requests()->set_payload_bytes(uint64_t{1} << 63);
  liar.Say(frame, "few");
  EXPECT_TRUE(liar.closed);
  EXPECT_EQ(t.service->num_links(), 0);
}

}  // namespace
}  // namespace pw::session
