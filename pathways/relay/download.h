// Download: a large array on its way from a controller of another machine. It comes as the stock client would have it (HostBufferLookup),
// and goes into memory that a process of this machine maps, so that it crosses no second socket here.
//
// Deletes itself when the call has ended. gRPC's threads do the work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"

namespace pw::relay {

struct DownloadRequest {
  uint64_t session = 0;  // as host-buffer calls name it
  uint64_t handle = 0;
  uint64_t bytes = 0;
};

// `done` gets memory that NameOf knows, or why not, on a thread of gRPC's. Whoever holds what is returned may cancel.
std::shared_ptr<grpc::ClientContext> StartDownload(const std::shared_ptr<grpc::Channel>& controller, const DownloadRequest& request,
                                                   net::SharedMemoryFactory& factory, std::function<void(absl::StatusOr<Bytes>)> done);

}  // namespace pw::relay
