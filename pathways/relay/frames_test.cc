#include "pathways/relay/frames.h"

#include <cstdint>

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
  constexpr size_t kMetadata = 2 + 1 + 8;      // tag and length; within, a tag and the operation in eight bytes
  constexpr size_t kKind = kMetadata + 2;      // and the tag of the request, whose number is above 15
  for (size_t size = 0; size <= whole.size(); ++size) {
    grpc::Slice slice(whole.data(), size);
    const Frame frame = ReadRequest(grpc::ByteBuffer(&slice, 1));
    EXPECT_EQ(frame.op_id, size >= kMetadata ? 77u : 0u) << size;
    EXPECT_EQ(frame.kind, size >= kKind ? IfrtRequest::kGetDefaultLayoutRequest : 0) << size;
    EXPECT_EQ(frame.layout_rank, size == whole.size() ? 1 : 0) << size;
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

TEST(FramesTest, HostBuffersOfArraysHaveTheSizeThatTheClientSends) {
  IfrtRequest one;
  auto& made = *one.mutable_make_array_from_host_buffer_request();
  made.set_host_buffer_handle(7);
  made.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
  const auto bytes = [&] {
    const auto buffers = HostBuffersOf(IfrtRequest::kMakeArrayFromHostBufferRequest, Buffer(one));
    EXPECT_EQ(buffers.size(), 1u);
    EXPECT_EQ(buffers.at(0).handle, 7u);
    return buffers.at(0).bytes;
  };
  EXPECT_EQ(bytes(), 4);
  for (const int64_t dim : {3, 5}) made.mutable_shape()->add_dims(dim);
  EXPECT_EQ(bytes(), 60);
  for (const int64_t stride : {4, 12}) made.mutable_byte_strides()->add_strides(stride);
  EXPECT_EQ(bytes(), 60) << "column by column";
  made.mutable_byte_strides()->set_strides(1, -16);
  EXPECT_EQ(bytes(), 4 + 2 * 4 + 4 * 16) << "with gaps, and backwards";

  made.mutable_byte_strides()->set_strides(1, INT64_MIN / 4);
  EXPECT_EQ(bytes(), 0) << "no such array";
  made.mutable_byte_strides()->add_strides(1);
  EXPECT_EQ(bytes(), 0);
  made.clear_byte_strides();
  made.mutable_shape()->set_dims(0, INT64_MAX);
  EXPECT_EQ(bytes(), 0);
  made.mutable_shape()->set_dims(0, 0);
  EXPECT_EQ(bytes(), 0);

  IfrtRequest shards;
  for (const uint64_t handle : {8, 9}) {
    auto& buffer = *shards.mutable_make_arrays_from_host_buffer_shards_request()->add_specs()->add_host_buffers();
    buffer.set_host_buffer_handle(handle);
    buffer.mutable_dtype()->set_kind(handle == 8 ? xla::ifrt::DTypeProto::KIND_C128 : xla::ifrt::DTypeProto::KIND_STRING);
  }
  const auto buffers = HostBuffersOf(IfrtRequest::kMakeArraysFromHostBufferShardsRequest, Buffer(shards));
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].bytes, 16);
  EXPECT_EQ(buffers[1].bytes, 0) << "a string's size is not known";
  EXPECT_TRUE(HostBuffersOf(IfrtRequest::kCompileRequest, Buffer(one)).empty());
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
