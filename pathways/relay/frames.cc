#include "pathways/relay/frames.h"

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "ifrt_proxy/ifrt_service.pb.h"

namespace pw::relay {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using xla::ifrt::proxy::IfrtRequest;
using xla::ifrt::proxy::IfrtResponse;

// The future of a deletion that the relay acknowledges itself. In the range of handles that servers make.
constexpr uint64_t kDeletedFuture = (uint64_t{1} << 63) - 1;
constexpr int kMetadataField = 1;  // of IfrtRequest and IfrtResponse
constexpr int kOpIdField = 1;      // of RequestMetadata and ResponseMetadata

bool ReadOpId(CodedInputStream* in, uint64_t* op_id) {
  uint32_t length;
  if (!in->ReadVarint32(&length)) return false;
  const auto limit = in->PushLimit(static_cast<int>(length));
  while (const uint32_t tag = in->ReadTag()) {
    if (tag == WireFormatLite::MakeTag(kOpIdField, WireFormatLite::WIRETYPE_FIXED64)) {
      uint64_t value;
      if (!in->ReadLittleEndian64(&value)) return false;
      *op_id = value;
    } else if (!WireFormatLite::SkipField(in, tag)) {
      return false;
    }
  }
  in->PopLimit(limit);
  return true;
}

// Reads no further than the tag of the oneof: its contents may be large.
Frame ReadHead(const grpc::ByteBuffer& bytes) {
  Frame frame;
  // The reader takes a pointer to non-const but only adds references to the slices.
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&bytes));
  CodedInputStream in(&reader);
  while (const uint32_t tag = in.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (field == kMetadataField) {
      if (!ReadOpId(&in, &frame.op_id)) break;
      continue;
    }
    frame.kind = field;
    // Serializers write fields in the order of their numbers, so that the metadata has been read by now; if not, look behind.
    if (frame.op_id != 0 || !WireFormatLite::SkipField(&in, tag)) break;
  }
  return frame;
}

template <class Message>
bool Parse(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&bytes));
  return message->ParseFromZeroCopyStream(&reader);
}

// Of one element in host memory, as the client sends it; 0 for those whose arrays are hardly ever large, and those without a size.
int ElementBytes(xla::ifrt::DTypeProto::Kind kind) {
  using Type = xla::ifrt::DTypeProto;
  switch (kind) {
    case Type::KIND_PRED:
    case Type::KIND_S4:
    case Type::KIND_U4:
    case Type::KIND_S8:
    case Type::KIND_U8:
    case Type::KIND_F8E4M3FN:
    case Type::KIND_F8E5M2:
      return 1;
    case Type::KIND_S16:
    case Type::KIND_U16:
    case Type::KIND_F16:
    case Type::KIND_BF16:
      return 2;
    case Type::KIND_S32:
    case Type::KIND_U32:
    case Type::KIND_F32:
      return 4;
    case Type::KIND_S64:
    case Type::KIND_U64:
    case Type::KIND_F64:
    case Type::KIND_C64:
      return 8;
    case Type::KIND_C128:
      return 16;
    default:
      return 0;
  }
}

// The memory that an array spans: its last element, and from each dimension the way to that. `Source`: a message that describes one. The
// numbers are the client's; where they are not those of an array the result is 0.
template <class Source>
int64_t SpannedBytes(const Source& source) {
  const int64_t element = ElementBytes(source.dtype().kind());
  const auto& dims = source.shape().dims();
  const bool strided = source.has_byte_strides();
  if (element == 0 || (strided && source.byte_strides().strides_size() != dims.size())) return 0;
  int64_t bytes = element, dense = element;
  for (int i = dims.size() - 1; i >= 0; --i) {
    const int64_t stride = strided ? source.byte_strides().strides(i) : dense;
    int64_t way;
    if (dims[i] <= 0 || __builtin_mul_overflow(dims[i] - 1, stride, &way) || way == INT64_MIN ||
        __builtin_add_overflow(bytes, std::abs(way), &bytes) || __builtin_mul_overflow(dense, dims[i], &dense)) {
      return 0;
    }
  }
  return bytes;
}

// True if `response` has got an answer that is not an error.
bool AnswerWithoutController(const Frame& request, IfrtResponse* response) {
  switch (request.kind) {
    case IfrtRequest::kGetDefaultLayoutRequest:
      response->mutable_get_default_layout_response()->set_serialized_pjrt_layout(RowMajorLayout(request.layout_rank));
      return true;
    case IfrtRequest::kDestructArrayRequest:
      response->mutable_destruct_array_response();
      return true;
    case IfrtRequest::kDeleteArrayRequest:
      response->mutable_delete_array_response()->set_deletion_future_handle(kDeletedFuture);
      return true;
    case IfrtRequest::kCheckFutureRequest:
      if (!request.relay_future) return false;
      response->mutable_check_future_response();
      return true;
    case IfrtRequest::kIsArrayDeletedRequest:
      response->mutable_is_array_deleted_response()->set_deleted(false);
      return true;
    case IfrtRequest::kLoadedExecutableDeleteRequest:
      response->mutable_loaded_executable_delete_response()->set_future_handle(kDeletedFuture);
      return true;
    case IfrtRequest::kLoadedExecutableIsDeletedRequest:
      response->mutable_loaded_executable_is_deleted_response()->set_is_deleted(false);
      return true;
    case IfrtRequest::kLoadedExecutableDestructRequest:
      response->mutable_loaded_executable_destruct_response();
      return true;
    case IfrtRequest::kLoadedHostCallbackPollRequest:  // an error would be polled again at once, for ever
      response->mutable_loaded_host_callback_poll_response();
      return true;
    default:
      return false;
  }
}

}  // namespace

Frame ReadRequest(const grpc::ByteBuffer& request) {
  Frame frame = ReadHead(request);
  if (frame.kind == IfrtRequest::kGetDefaultLayoutRequest || frame.kind == IfrtRequest::kCheckFutureRequest) {
    IfrtRequest message;
    if (!Parse(request, &message)) return frame;
    frame.layout_rank = message.get_default_layout_request().dims_size();
    frame.relay_future = message.check_future_request().future_handle() == kDeletedFuture;
  }
  return frame;
}

std::vector<HostBuffer> HostBuffersOf(int kind, const grpc::ByteBuffer& request) {
  std::vector<HostBuffer> buffers;
  IfrtRequest message;
  if ((kind != IfrtRequest::kMakeArrayFromHostBufferRequest && kind != IfrtRequest::kMakeArraysFromHostBufferShardsRequest) ||
      !Parse(request, &message)) {
    return buffers;
  }
  if (message.has_make_array_from_host_buffer_request()) {
    const auto& made = message.make_array_from_host_buffer_request();
    buffers.push_back({made.host_buffer_handle(), SpannedBytes(made)});
  }
  for (const auto& spec : message.make_arrays_from_host_buffer_shards_request().specs()) {
    for (const auto& made : spec.host_buffers()) buffers.push_back({made.host_buffer_handle(), SpannedBytes(made)});
  }
  return buffers;
}

Frame ReadResponse(const grpc::ByteBuffer& response) { return ReadHead(response); }

uint64_t ReadSessionId(const grpc::ByteBuffer& response) {
  IfrtResponse message;
  return Parse(response, &message) ? message.init_response().session_id() : 0;
}

grpc::ByteBuffer Answer(const Frame& request, const absl::Status& gone) {
  IfrtResponse response;
  auto* metadata = response.mutable_response_metadata();
  metadata->set_op_id(request.op_id);
  if (!AnswerWithoutController(request, &response)) {
    metadata->mutable_status()->set_code(static_cast<tensorflow::error::Code>(gone.raw_code()));
    metadata->mutable_status()->set_message(std::string(gone.message()));
  }
  grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

std::string RowMajorLayout(int rank) {
  std::string text = "{";
  for (int d = rank - 1; d >= 0; --d) absl::StrAppend(&text, d, d > 0 ? "," : "");
  return text + "}";
}

}  // namespace pw::relay
