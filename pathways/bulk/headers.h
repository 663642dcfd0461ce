// Headers of the IFRT proxy's calls: what a call says of itself before its first message. Their values are serialized messages of
// grpc_ifrt_service.proto, and come from outside.
#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <string_view>

namespace pw::bulk {

// Announces a session: GrpcIfrtSessionMetadata.
inline constexpr char kSessionHeader[] = "ifrt-proxy-grpc-ifrt-session-metadata-bin";
// Announces a HostBufferStore: GrpcHostBufferStoreMetadata.
inline constexpr char kStoreHeader[] = "ifrt-proxy-grpc-host-buffer-store-metadata-bin";

// In the controller's answer to an IfrtSession: "PORT SECRET" of its bulk lines (line.h). Stock clients do not look at it.
inline constexpr char kLineHeader[] = "pathways-bulk-line";

std::optional<std::string> FindHeader(const grpc::ServerContextBase& context, std::string_view name);

}  // namespace pw::bulk
