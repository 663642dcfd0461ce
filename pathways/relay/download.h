// Download: a large array on its way from a controller of another machine, into memory that a process of this machine maps, so that it
// crosses no second socket here. It comes over the bulk line; without one, as the stock client would have it (HostBufferLookup).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"
#include "pathways/relay/controller_line.h"

namespace pw::relay {

// How the controller is reached.
struct ControllerWays {
  std::shared_ptr<grpc::Channel> channel;
  ControllerLine* line = nullptr;  // may be null
};

struct DownloadRequest {
  uint64_t session = 0;  // as host-buffer calls name it
  uint64_t handle = 0;
  uint64_t bytes = 0;
};

// `done` gets memory that NameOf knows, or why not, on any thread. Whoever holds what is returned may cancel what goes through gRPC.
std::shared_ptr<grpc::ClientContext> StartDownload(const ControllerWays& controller, const DownloadRequest& request,
                                                   net::SharedMemoryFactory& factory,
                                                   std::function<void(absl::StatusOr<Bytes>)> done);

}  // namespace pw::relay
