// Hosts are told which requests are settled: those whose work on the hosts has ended, and whose answers the client has acknowledged.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
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

class SettledTest : public ::testing::Test {
 protected:
  SettledTest() {
    cluster_.Open();
    ServedSession::Owner owner;
    owner.on_unsent = [] {};
    owner.on_resumed = [] {};
    owner.on_broken = [](const absl::Status& status) { ADD_FAILURE() << status; };
    served_ = std::make_shared<ServedSession>(cluster_.cluster.get(), &programs_, std::exchange(cluster_.session, nullptr),
                                              ServedSession::Client{{}, true, false}, std::move(owner));
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

}  // namespace
}  // namespace pw::session
