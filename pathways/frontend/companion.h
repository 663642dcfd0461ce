// The companion channel (proto/pathways/v1/client.proto): host calls from running computations to the client's Python, and cluster status.
#pragma once

#include <memory>

#include "pathways/frontend/server_state.h"
#include "pathways/v1/client.grpc.pb.h"

namespace pw::frontend {

class CompanionService final : public pathways::v1::ClientCompanion::CallbackService {
 public:
  explicit CompanionService(std::shared_ptr<ServerState> state) : state_(std::move(state)) {}

  grpc::ServerBidiReactor<pathways::v1::HostCallAnswer, pathways::v1::HostCallRequest>* HostCalls(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const pathways::v1::GetStatusRequest* request,
                                      pathways::v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* SetShare(grpc::CallbackServerContext* context, const pathways::v1::SetShareRequest* request,
                                     pathways::v1::SetShareResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const pathways::v1::DrainRequest* request,
                                  pathways::v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* Suspend(grpc::CallbackServerContext* context, const pathways::v1::SuspendRequest* request,
                                    pathways::v1::SuspendResponse* response) override;
  grpc::ServerUnaryReactor* Trace(grpc::CallbackServerContext* context, const pathways::v1::TraceRequest* request,
                                  pathways::v1::TraceResponse* response) override;

 private:
  const std::shared_ptr<ServerState> state_;
};

}  // namespace pw::frontend
