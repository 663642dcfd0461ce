// The companion channel (proto/pathways/v1/client.proto): host calls from running computations to the client's Python.
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

 private:
  const std::shared_ptr<ServerState> state_;
};

}  // namespace pw::frontend
