// Whatever a client or a controller sends, the relay reads it without harm, and its answer to a request is a message.
#include <cstddef>
#include <cstdint>
#include <string>

#include "grpcpp/impl/grpc_library.h"
#include "pathways/base/log.h"
#include "pathways/relay/call_message.h"
#include "pathways/relay/frames.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static grpc::internal::GrpcLibraryInitializer library;
  // In two slices, as a frame may come.
  grpc::Slice slices[2] = {grpc::Slice(data, size / 2), grpc::Slice(data + size / 2, size - size / 2)};
  const grpc::ByteBuffer bytes(slices, 2);
  const pw::relay::Frame request = pw::relay::ReadRequest(bytes);
  const pw::relay::Frame answer = pw::relay::ReadResponse(pw::relay::Answer(request, absl::UnavailableError("gone")));
  PW_CHECK(answer.op_id == request.op_id);
  for (const auto& buffer : pw::relay::HostBuffersOf(request.kind, bytes)) PW_CHECK(buffer.bytes >= 0);
  pw::relay::ReadResponse(bytes);
  pw::relay::ReadSessionId(bytes);
  (void)pw::relay::ParseHeader(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
