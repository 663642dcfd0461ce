// FloorService: the gRPC side of the floor server. A FloorSession answers the requests for which a client waits. Uploaded host
// buffers are discarded; downloads are zeros of the right size, in chunks of 1 MiB. It uses gRPC's callback interface, as the
// real front end does. So a request wakes no thread of the server's own, and the server takes little processor time from the
// client.
#pragma once

#include <atomic>
#include <cstdint>

#include "bench/floor/session.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"

namespace pw::bench {

inline constexpr size_t kChunkBytes = 1 << 20;  // as jax's client sends

class FloorService final : public xla::ifrt::proxy::GrpcIfrtService::CallbackService {
 public:
  FloorService(int devices, bool answer_all) : devices_(devices), answer_all_(answer_all) {}

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const xla::ifrt::proxy::GrpcGetVersionRequest* request,
                                       xla::ifrt::proxy::GrpcGetVersionResponse* response) override;
  grpc::ServerBidiReactor<xla::ifrt::proxy::IfrtRequest, xla::ifrt::proxy::IfrtResponse>* IfrtSession(
      grpc::CallbackServerContext* context) override;
  grpc::ServerReadReactor<xla::ifrt::proxy::GrpcHostBufferStoreRequest>* HostBufferStore(
      grpc::CallbackServerContext* context, xla::ifrt::proxy::GrpcHostBufferStoreResponse* response) override;
  // If no session has set the buffer's size, the handle itself is the size, as in stream_floor.cc.
  grpc::ServerWriteReactor<xla::ifrt::proxy::GrpcHostBufferLookupResponse>* HostBufferLookup(
      grpc::CallbackServerContext* context, const xla::ifrt::proxy::GrpcHostBufferLookupRequest* request) override;
  grpc::ServerUnaryReactor* HostBufferDelete(grpc::CallbackServerContext* context,
                                             const xla::ifrt::proxy::GrpcHostBufferDeleteRequest* request,
                                             xla::ifrt::proxy::GrpcHostBufferDeleteResponse* response) override;

 private:
  const int devices_;
  const bool answer_all_;
  std::atomic<uint64_t> next_session_ = 1;
  HostBuffers buffers_;
};

}  // namespace pw::bench
