// The host-buffer methods of the proxy protocol, which carry array contents between a client and the front end. They come on
// another connection than the session's requests and have no order relative to them; the session joins the two by handle.
//
// Data is copied once on the way in (from the network's buffers to aligned memory) and not at all on the way out.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "ifrt_proxy/grpc_ifrt_service.pb.h"
#include "pathways/frontend/server_state.h"

namespace pw::frontend {

grpc::ServerReadReactor<grpc::ByteBuffer>* StoreHostBuffer(std::shared_ptr<ServerState> server,
                                                           grpc::CallbackServerContext* context, grpc::ByteBuffer* response);
grpc::ServerWriteReactor<grpc::ByteBuffer>* LookupHostBuffer(std::shared_ptr<ServerState> server,
                                                             grpc::CallbackServerContext* context,
                                                             const grpc::ByteBuffer* request);
grpc::ServerUnaryReactor* DeleteHostBuffer(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context,
                                           const xla::ifrt::proxy::GrpcHostBufferDeleteRequest* request);
grpc::ServerUnaryReactor* ReadHostBufferFromDisk(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context,
                                                 const xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest* request);

}  // namespace pw::frontend
