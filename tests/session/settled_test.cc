// Hosts are told which requests are settled: those whose work on the hosts has ended, and whose answers the client has acknowledged.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/controller/hosts/settlement.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/session/program_store.h"
#include "pathways/session/served_session.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using controller::Settlement;
using controller::TestCluster;
using ::pathways::v1::SessionRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SettledTest : public ::testing::Test {
 protected:
  // `restorable`: the client is told first.
  explicit SettledTest(bool restorable = false) {
    cluster_.Open();
    ServedSession::Owner owner;
    owner.on_unsent = [] {};
    owner.on_resumed = [] {};
    owner.on_broken = [](const absl::Status& status) { ADD_FAILURE() << status; };
    served_ = std::make_shared<ServedSession>(cluster_.cluster.get(), &programs_, std::exchange(cluster_.session, nullptr),
                                              ServedSession::Client{{}, true, false, restorable}, std::move(owner));
    session_ = served_->id().v;
  }
  ~SettledTest() override {
    served_ = nullptr;
    cluster_.Run();
  }

  // Carries out the next request, and returns its number.
  uint64_t Take(SessionRequest message, const std::string& payload = "") {
    google::protobuf::RepeatedPtrField<SessionRequest> requests;
    *requests.Add() = std::move(message);
    std::vector<Bytes> payloads = {Bytes::Copy(payload)};
    const absl::Status status = served_->Take(++taken_, std::move(requests), std::move(payloads));
    EXPECT_TRUE(status.ok()) << status;
    cluster_.Run();
    return taken_;
  }
  // The array has its bytes when its buffer comes.
  uint64_t Make(Handle array) {
    SessionRequest request;
    auto& make = *request.mutable_make_array();
    make.set_result(array);
    ToProto(TestCluster::Single(0, {1, 4}), make.mutable_spec());
    auto& source = *make.add_sources();
    source.set_buffer(1'000'000 + array);
    source.set_dtype(static_cast<int>(buffers::DType::kU8));
    source.add_dims(1);
    source.add_dims(4);
    source.add_shards(0);
    return Take(request);
  }
  uint64_t SendBuffer(Handle array) {
    SessionRequest request;
    request.mutable_host_buffer()->set_buffer(1'000'000 + array);
    return Take(request, "abcd");
  }
  void MakeWhole(Handle first, Handle last) {
    for (Handle array = first; array <= last; ++array) {
      Make(array);
      SendBuffer(array);
    }
  }
  uint64_t Read(Handle array) {
    SessionRequest request;
    request.mutable_fetch()->set_array(array);
    return Take(request);
  }
  void Acknowledge() {
    net::ResumableStream& stream = served_->stream();
    while (stream.has_unsent()) stream.Take(1 << 20);
    EXPECT_TRUE(served_->Acknowledge(stream.last_appended()).ok());
  }
  // What the host has been told after more work of the session that is settled at once.
  ::pathways::v1::Settled Told() {
    MakeWhole(next_, next_ + Settlement::kStep);
    next_ += Settlement::kStep + 1;
    return cluster_.workers[0]->settled[session_];
  }

  TestCluster cluster_;
  ProgramStore programs_;
  std::shared_ptr<ServedSession> served_;
  uint64_t session_ = 0;
  uint64_t taken_ = 0;
  Handle next_ = 100'000;
};

TEST_F(SettledTest, AReadIsSettledWhenItsClientHasTheAnswer) {
  MakeWhole(1, 1);
  const uint64_t read = Read(1), another = Read(1);
  const ::pathways::v1::Settled before = Told();
  EXPECT_EQ(before.up_to(), read - 1);
  ASSERT_GE(before.others_size(), 2);
  EXPECT_EQ(before.others(0), another + 1);
  Acknowledge();
  EXPECT_GT(Told().up_to(), another);
}

TEST_F(SettledTest, ACommandThatHasNotEndedKeepsItsRequest) {
  const uint64_t made = Make(1);
  EXPECT_EQ(Told().up_to(), made - 1);
  const int frames = cluster_.workers[0]->frames;
  SendBuffer(1);
  EXPECT_EQ(cluster_.workers[0]->frames, frames + 1) << "what is settled causes no frame";
  EXPECT_GT(Told().up_to(), made);
}

TEST_F(SettledTest, ARunIsSettledWhenItsClientHasItsResult) {
  MakeWhole(1, 1);
  SessionRequest compile;
  auto& program = *compile.mutable_compile();
  program.set_executable(5);
  program.set_format("mlir");
  program.set_options("\x10\x01");  // parameter_is_tupled_arguments
  program.set_num_replicas(1);
  program.set_num_partitions(1);
  program.add_devices(0);
  Take(compile, TestCluster::Toy("copy", 1, 1, 1).SerializeAsString());
  SessionRequest call;
  call.mutable_execute()->set_executable(5);
  call.mutable_execute()->add_args(1);
  call.mutable_execute()->add_results(2);
  call.mutable_execute()->set_status(77);
  const uint64_t run = Take(call);
  Acknowledge();
  EXPECT_EQ(Told().up_to(), run - 1);
  SessionRequest ask;
  ask.set_fetch_run(77);
  Take(ask);
  EXPECT_EQ(Told().others_size(), 2) << "of the question, whose answer is not acknowledged";
  Acknowledge();
  EXPECT_GT(Told().up_to(), run);
}

class ToldSettledTest : public SettledTest {
 protected:
  ToldSettledTest() : SettledTest(true) {}

  // Returns the requests of which the client is told now, and sends the event.
  ::pathways::v1::SettledRequests News() {
    served_->TellSettled();
    ::pathways::v1::SettledRequests news;
    net::ResumableStream& stream = served_->stream();
    while (stream.has_unsent()) {
      for (const auto* message : stream.Take(1 << 20).messages) {
        ::pathways::v1::SessionEvent event;
        EXPECT_TRUE(event.ParseFromString(message->header));
        if (event.has_settled()) news = event.settled();
      }
    }
    return news;
  }
  uint64_t Assemble(Handle result, Handle from) {
    SessionRequest request;
    request.mutable_assemble()->add_results(result);
    request.mutable_assemble()->add_arrays(from);
    ToProto(TestCluster::Single(0, {1, 4}), request.mutable_assemble()->add_specs());
    return Take(request);
  }
};

TEST_F(ToldSettledTest, HostsAreToldWhenTheClientKnows) {
  MakeWhole(1, 31);
  EXPECT_EQ(News().ranges_size(), 0) << "too few to be told";
  MakeWhole(32, 32);
  EXPECT_THAT(News().ranges(), ElementsAre(1, 64));
  MakeWhole(33, 100);
  EXPECT_EQ(cluster_.workers[0]->settled[session_].up_to(), 0u) << "the client has not acknowledged the news";
  Acknowledge();
  MakeWhole(101, 101);
  EXPECT_EQ(cluster_.workers[0]->settled[session_].up_to(), 64u);
  EXPECT_THAT(News().ranges(), ElementsAre(65, 202));
}

TEST_F(ToldSettledTest, TheClientIsToldTheNamesThatItCannotDerive) {
  MakeWhole(1, 40);
  const uint64_t single = Assemble(900, 5);  // the array of request 9 by another handle
  MakeWhole(41, 41);
  const auto news = News();
  EXPECT_THAT(news.ranges(), ElementsAre(1, single + 2)) << "in the order of their requests";
  const uint64_t name = *RequestName{SessionId(session_), 9, 0, false}.Number();
  EXPECT_THAT(news.names(), ElementsAre(900, name));
}

// Another controller would carry out the first request again, and make the array. It would have the name twice.
TEST_F(ToldSettledTest, ARequestWhoseResultMayBeAnEarlierArrayIsSettledAfterThatOne) {
  const uint64_t pending = Make(1);
  const uint64_t shares = Assemble(900, 1);
  MakeWhole(2, 50);
  EXPECT_THAT(News().ranges(), ElementsAre(shares + 1, shares + 98));
  SendBuffer(1);
  MakeWhole(51, 90);
  EXPECT_THAT(News().ranges(), ElementsAre(pending, shares, shares + 99, shares + 179)) << "ranges that meet are one";
}

// The client keeps no request that no controller will carry out again.
TEST_F(ToldSettledTest, ARestoredSessionTellsThatAllOtherRequestsAreSettled) {
  ServedSession::RestorePart part;
  for (uint64_t number : {3, 7}) {
    auto& made = *part.requests.Add()->mutable_make_error_array();
    made.set_result(number);
    ToProto(TestCluster::Single(0, {1, 4}), made.mutable_spec());
    ToProto(absl::OutOfRangeError("too large"), made.mutable_error());
    part.restore.add_numbers(number);
    part.payloads.emplace_back();
  }
  part.restore.set_last_request(10);
  std::vector<ServedSession::RestorePart> parts;
  parts.push_back(std::move(part));
  absl::Status restored = absl::UnknownError("not yet");
  served_->Restore(std::move(parts), [&](absl::Status status) { restored = std::move(status); });
  cluster_.Run();
  EXPECT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(served_->carried_out(), 9u);
  EXPECT_THAT(News().ranges(), ElementsAre(1, 2, 4, 6, 8, 9));
}

TEST_F(ToldSettledTest, ARestoredArrayCannotHaveTheNameOfOneThatIsStillToBeMade) {
  const uint64_t last = 9;
  for (uint64_t request : {uint64_t{3}, last + 1}) {
    ServedSession::RestorePart part;
    part.requests.Add()->mutable_destruct();
    part.restore.add_numbers(3);
    part.payloads.emplace_back();
    auto& array = *part.restore.add_arrays();
    array.set_handle(1'000 + request);
    array.set_name(*RequestName{SessionId(session_), request, 0, false}.Number());
    part.restore.set_last_request(last + 1);
    std::vector<ServedSession::RestorePart> parts;
    parts.push_back(std::move(part));
    absl::Status restored;
    served_->Restore(std::move(parts), [&](absl::Status status) { restored = std::move(status); });
    cluster_.Run();
    EXPECT_TRUE(absl::IsInvalidArgument(restored)) << restored;
  }
}

TEST_F(ToldSettledTest, SomeRequestsCannotBeCarriedOutByAnotherController) {
  ServedSession::RestorePart part;
  part.requests.Add()->mutable_save()->set_location("/tmp");
  part.restore.add_numbers(3);
  part.payloads.emplace_back();
  part.restore.set_last_request(4);
  std::vector<ServedSession::RestorePart> parts;
  parts.push_back(std::move(part));
  absl::Status restored;
  served_->Restore(std::move(parts), [&](absl::Status status) { restored = std::move(status); });
  cluster_.Run();
  EXPECT_TRUE(absl::IsUnavailable(restored));
  EXPECT_THAT(std::string(restored.message()), HasSubstr("arrays were on their way to or from files"));
}

}  // namespace
}  // namespace pw::session
