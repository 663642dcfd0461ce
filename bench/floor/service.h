// FloorService: the gRPC side of the floor server. Sessions answer what a client must have answered (FloorSession); host buffers are
// read and discarded, and what is looked up is zeros of the right size, in chunks of 1 MiB.
// Synchronous: each call has a gRPC thread of its own.
#pragma once

#include <atomic>
#include <cstdint>

#include "bench/floor/session.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"

namespace pw::bench {

inline constexpr size_t kChunkBytes = 1 << 20;  // what jax's client uses

class FloorService final : public xla::ifrt::proxy::GrpcIfrtService::Service {
 public:
  FloorService(int devices, bool answer_all) : devices_(devices), answer_all_(answer_all) {}

  grpc::Status GetVersion(grpc::ServerContext* context, const xla::ifrt::proxy::GrpcGetVersionRequest* request,
                          xla::ifrt::proxy::GrpcGetVersionResponse* response) override;
  grpc::Status IfrtSession(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<xla::ifrt::proxy::IfrtResponse, xla::ifrt::proxy::IfrtRequest>* stream) override;
  grpc::Status HostBufferStore(grpc::ServerContext* context,
                               grpc::ServerReader<xla::ifrt::proxy::GrpcHostBufferStoreRequest>* reader,
                               xla::ifrt::proxy::GrpcHostBufferStoreResponse* response) override;
  // Of a handle that no session has filled, the handle itself is the size: what a bare stream asks for.
  grpc::Status HostBufferLookup(grpc::ServerContext* context, const xla::ifrt::proxy::GrpcHostBufferLookupRequest* request,
                                grpc::ServerWriter<xla::ifrt::proxy::GrpcHostBufferLookupResponse>* writer) override;
  grpc::Status HostBufferDelete(grpc::ServerContext* context, const xla::ifrt::proxy::GrpcHostBufferDeleteRequest* request,
                                xla::ifrt::proxy::GrpcHostBufferDeleteResponse* response) override;

 private:
  const int devices_;
  const bool answer_all_;
  std::atomic<uint64_t> next_session_ = 1;
  HostBuffers buffers_;
};

}  // namespace pw::bench
