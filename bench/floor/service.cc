#include "bench/floor/service.h"

#include <algorithm>
#include <optional>
#include <string>

namespace pw::bench {

using namespace xla::ifrt::proxy;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kOurProtocolVersion = 25;

// Which host buffer a HostBufferStore fills; a bare stream has no such header.
std::optional<HostBuffers::Key> StoreKey(const grpc::ServerContext& context) {
  const auto it = context.client_metadata().find("ifrt-proxy-grpc-host-buffer-store-metadata-bin");
  GrpcHostBufferStoreMetadata metadata;
  if (it == context.client_metadata().end() || !metadata.ParseFromArray(it->second.data(), static_cast<int>(it->second.size()))) {
    return std::nullopt;
  }
  return HostBuffers::Key{metadata.session_id(), metadata.handle()};
}

}  // namespace

grpc::Status FloorService::GetVersion(grpc::ServerContext* context, const GrpcGetVersionRequest* request,
                                      GrpcGetVersionResponse* response) {
  *response->mutable_version() = request->max_version();
  response->mutable_version()->set_protocol_version(std::min(request->max_version().protocol_version(), kOurProtocolVersion));
  return grpc::Status::OK;
}

grpc::Status FloorService::IfrtSession(grpc::ServerContext* context, grpc::ServerReaderWriter<IfrtResponse, IfrtRequest>* stream) {
  const uint64_t id = next_session_++;
  FloorSession session(id, devices_, answer_all_, &buffers_);
  IfrtRequest request;
  while (stream->Read(&request)) {
    if (const auto response = session.Handle(request)) stream->Write(*response);
  }
  return grpc::Status::OK;
}

grpc::Status FloorService::HostBufferStore(grpc::ServerContext* context, grpc::ServerReader<GrpcHostBufferStoreRequest>* reader,
                                           GrpcHostBufferStoreResponse* response) {
  GrpcHostBufferStoreRequest chunk;
  while (reader->Read(&chunk)) {
  }
  if (const auto key = StoreKey(*context)) buffers_.SetArrived(*key);
  return grpc::Status::OK;
}

grpc::Status FloorService::HostBufferLookup(grpc::ServerContext* context, const GrpcHostBufferLookupRequest* request,
                                            grpc::ServerWriter<GrpcHostBufferLookupResponse>* writer) {
  int64_t left = buffers_.SizeOf({request->session_id(), request->handle()}, static_cast<int64_t>(request->handle()));
  GrpcHostBufferLookupResponse chunk;
  chunk.set_data(std::string(std::min<size_t>(left, kChunkBytes), '\0'));
  do {
    if (left < static_cast<int64_t>(chunk.data().size())) chunk.mutable_data()->resize(left);
    if (!writer->Write(chunk)) break;
    left -= static_cast<int64_t>(chunk.data().size());
  } while (left > 0);
  return grpc::Status::OK;
}

grpc::Status FloorService::HostBufferDelete(grpc::ServerContext* context, const GrpcHostBufferDeleteRequest* request,
                                            GrpcHostBufferDeleteResponse* response) {
  buffers_.Forget({request->session_id(), request->handle()});
  return grpc::Status::OK;
}

}  // namespace pw::bench
