// The companion channel over real gRPC; and what clients say of themselves in their initialization_data.
#include "pathways/frontend/companion.h"

#include <gmock/gmock.h>

#include <future>

#include "pathways/frontend/client_session.h"
#include "pathways/frontend/session_table.h"
#include "pathways/frontend/testing/server_test_base.h"
#include "pathways/v1/client.grpc.pb.h"

namespace pw::frontend {
namespace {

using ::testing::HasSubstr;

class CompanionTest : public ServerTest {
 protected:
  using Answer = pathways::v1::HostCallAnswer;
  using Request = pathways::v1::HostCallRequest;
  struct Channel {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<Answer, Request>> stream;
  };
  CompanionTest() {
    Start();
    companion_ = pathways::v1::ClientCompanion::NewStub(channel_);
  }
  std::unique_ptr<Channel> OpenChannel(const std::string& token) {
    auto channel = std::make_unique<Channel>();
    channel->stream = companion_->HostCalls(&channel->context);
    Answer hello;
    hello.set_companion(token);
    channel->stream->Write(hello);
    return channel;
  }
  std::unique_ptr<Stream> OpenWithToken(const std::string& token) {
    return std::make_unique<Stream>(*stub_, Metadata(25, {{kCompanionKey, token}}));
  }
  bool HandlerSet() {
    return Eventually([this] { return !cluster_.handlers.empty() && cluster_.handlers.begin()->second != nullptr; });
  }
  std::future<absl::StatusOr<std::vector<Bytes>>> HostCall() {
    auto promise = std::make_shared<std::promise<absl::StatusOr<std::vector<Bytes>>>>();
    strand_.Post([this, promise] {
      controller::HostCall call;
      call.callback = 17;
      call.operands.push_back({buffers::DType::kF32, {1}, std::nullopt});
      call.data.push_back(Bytes::Copy("abcd"));
      cluster_.handlers.begin()->second->OnHostCall(std::move(call),
                                                    [promise](auto result) { promise->set_value(std::move(result)); });
    });
    return promise->get_future();
  }

  std::unique_ptr<pathways::v1::ClientCompanion::Stub> companion_;
};

TEST_F(CompanionTest, HostCallsGoThereAndBack) {
  auto channel = OpenChannel("token");
  auto stream = OpenWithToken("token");
  stream->Init();
  ASSERT_TRUE(HandlerSet());
  auto result = HostCall();
  Request request;
  ASSERT_TRUE(channel->stream->Read(&request));
  EXPECT_EQ(request.callback(), 17);
  EXPECT_EQ(request.operands(0).data(), "abcd");
  Answer answer;
  answer.set_call(request.call());
  answer.add_results("efgh");
  channel->stream->Write(answer);
  auto results = result.get();
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].view(), "efgh");
  // An exception in Python.
  result = HostCall();
  ASSERT_TRUE(channel->stream->Read(&request));
  answer.Clear();
  answer.set_call(request.call());
  answer.mutable_status()->set_code(13);
  answer.mutable_status()->set_message("ValueError: no");
  channel->stream->Write(answer);
  EXPECT_THAT(std::string(result.get().status().message()), HasSubstr("ValueError"));
}

TEST_F(CompanionTest, ALostChannelFailsItsCalls) {
  auto stream = OpenWithToken("token");
  stream->Init();
  auto channel = OpenChannel("token");
  ASSERT_TRUE(HandlerSet());
  auto result = HostCall();
  Request request;
  ASSERT_TRUE(channel->stream->Read(&request));
  channel->context.TryCancel();
  EXPECT_EQ(result.get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Eventually([this] { return cluster_.handlers.begin()->second == nullptr; }));
}

TEST_F(CompanionTest, TokensAreTakenOnce) {
  auto first = OpenChannel("token");
  auto stream = OpenWithToken("token");
  stream->Init();
  ASSERT_TRUE(HandlerSet());
  EXPECT_EQ(OpenChannel("token")->stream->Finish().error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(OpenChannel("")->stream->Finish().error_code(), grpc::INVALID_ARGUMENT);
  Answer stray;
  stray.set_call(99);
  first->stream->Write(stray);
  EXPECT_EQ(first->stream->Finish().error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(CompanionTest, AClientsShareIsTakenWhenItComes) {
  auto stream = std::make_unique<Stream>(*stub_, Metadata(25, {{kWeightKey, "2.5"}, {kPriorityKey, "3"}}));
  stream->Init();
  EXPECT_EQ(OnStrand([this] { return cluster_.shares.at(1); }), (gang::Share{.weight = 2.5, .priority = 3}));
}

TEST_F(CompanionTest, AClientThatWantsANonsensicalShareIsToldSo) {
  Stream stream(*stub_, Metadata(25, {{kWeightKey, "heavy"}}));
  IfrtRequest request;
  request.mutable_init_request();
  const IfrtResponse response = stream.Call(std::move(request));
  EXPECT_EQ(response.response_metadata().status().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(response.response_metadata().status().message(), HasSubstr("'heavy'"));
}

}  // namespace
}  // namespace pw::frontend
