#include "pathways/relay/frames.h"

#include "gtest/gtest.h"
#include "ifrt_proxy/ifrt_service.pb.h"

namespace pw::relay {
namespace {

using xla::ifrt::proxy::IfrtRequest;
using xla::ifrt::proxy::IfrtResponse;

grpc::ByteBuffer Buffer(const google::protobuf::Message& message) {
  grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

IfrtResponse Parsed(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const auto& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  IfrtResponse response;
  EXPECT_TRUE(response.ParseFromString(bytes));
  return response;
}

const absl::Status kGone = absl::UnavailableError("the controller is gone");

TEST(FramesTest, ReadsOperationAndKindWithoutTheRest) {
  IfrtRequest request;
  request.mutable_request_metadata()->set_op_id(77);
  request.mutable_request_metadata()->set_user_context_id(1);
  request.mutable_compile_request()->mutable_program()->set_data(std::string(1 << 20, 'x'));
  const Frame frame = ReadRequest(Buffer(request));
  EXPECT_EQ(frame.op_id, 77u);
  EXPECT_EQ(frame.kind, IfrtRequest::kCompileRequest);
}

TEST(FramesTest, ErrorResponsesHaveNoKind) {
  IfrtResponse response;
  response.mutable_response_metadata()->set_op_id(5);
  response.mutable_response_metadata()->mutable_status()->set_message("no");
  const Frame frame = ReadResponse(Buffer(response));
  EXPECT_EQ(frame.op_id, 5u);
  EXPECT_EQ(frame.kind, 0);
}

TEST(FramesTest, TruncatedFramesAreReadAsFarAsTheyGo) {
  IfrtRequest request;
  request.mutable_request_metadata()->set_op_id(77);
  request.mutable_get_default_layout_request()->add_dims(3);
  const std::string whole = request.SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) {
    grpc::Slice slice(whole.data(), size);
    ReadRequest(grpc::ByteBuffer(&slice, 1));
  }
}

TEST(FramesTest, LayoutsAreAlwaysAnsweredWithOne) {
  IfrtRequest request;
  request.mutable_request_metadata()->set_op_id(9);
  for (int d = 0; d < 3; ++d) request.mutable_get_default_layout_request()->add_dims(4);
  const IfrtResponse response = Parsed(Answer(ReadRequest(Buffer(request)), kGone));
  EXPECT_EQ(response.response_metadata().op_id(), 9u);
  EXPECT_FALSE(response.response_metadata().has_status());
  EXPECT_EQ(response.get_default_layout_response().serialized_pjrt_layout(), "{2,1,0}");
}

TEST(FramesTest, ScalarsAndVectorsHaveTheirLayoutsToo) {
  EXPECT_EQ(RowMajorLayout(0), "{}");
  EXPECT_EQ(RowMajorLayout(1), "{0}");
  EXPECT_EQ(RowMajorLayout(2), "{1,0}");
}

TEST(FramesTest, WorkIsAnsweredWithTheError) {
  IfrtRequest request;
  request.mutable_request_metadata()->set_op_id(3);
  request.mutable_check_value_ready_request();
  const IfrtResponse response = Parsed(Answer(ReadRequest(Buffer(request)), kGone));
  EXPECT_EQ(response.response_case(), IfrtResponse::RESPONSE_NOT_SET);
  EXPECT_EQ(response.response_metadata().status().code(), static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(response.response_metadata().status().message(), "the controller is gone");
}

TEST(FramesTest, TidyingUpSucceedsAndSoDoesItsFuture) {
  IfrtRequest request;
  request.mutable_request_metadata()->set_op_id(3);
  request.mutable_delete_array_request()->add_array_handle(1);
  const IfrtResponse deleted = Parsed(Answer(ReadRequest(Buffer(request)), kGone));
  ASSERT_TRUE(deleted.has_delete_array_response());

  IfrtRequest check;
  check.mutable_request_metadata()->set_op_id(4);
  check.mutable_check_future_request()->set_future_handle(deleted.delete_array_response().deletion_future_handle());
  EXPECT_TRUE(Parsed(Answer(ReadRequest(Buffer(check)), kGone)).has_check_future_response());
}

}  // namespace
}  // namespace pw::relay
