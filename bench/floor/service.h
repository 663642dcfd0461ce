// FloorService: the gRPC side of the floor server. Sessions answer what a client must have answered (FloorSession); host buffers are
// read and discarded, and what is looked up is zeros of the right size, in chunks of 1 MiB.
// On gRPC's callback interface, as the real front door: a request costs the server no wake-up of a thread of its own, so the floor
// takes as little of the processors away from the client as a server can.
#pragma once

#include <atomic>
#include <cstdint>

#include "bench/floor/session.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"

namespace pw::bench {

inline constexpr size_t kChunkBytes = 1 << 20;  // what jax's client uses

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
  // Of a handle that no session has filled, the handle itself is the size: what a bare stream asks for.
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
