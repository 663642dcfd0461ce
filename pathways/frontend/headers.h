// Headers of the IFRT proxy's calls, which come before a call's first message. Their values are serialized messages of
// grpc_ifrt_service.proto, and are not trusted.
#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <string_view>

namespace pw::frontend {

// Announces a session: GrpcIfrtSessionMetadata.
inline constexpr char kSessionHeader[] = "ifrt-proxy-grpc-ifrt-session-metadata-bin";
// Announces a HostBufferStore: GrpcHostBufferStoreMetadata.
inline constexpr char kStoreHeader[] = "ifrt-proxy-grpc-host-buffer-store-metadata-bin";

std::optional<std::string> FindHeader(const grpc::ServerContextBase& context, std::string_view name);

}  // namespace pw::frontend
