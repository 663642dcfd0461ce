#include "pathways/frontend/headers.h"

namespace pw::frontend {

std::optional<std::string> FindHeader(const grpc::ServerContextBase& context, std::string_view name) {
  const auto& headers = context.client_metadata();
  auto it = headers.find(grpc::string_ref(name.data(), name.size()));
  if (it == headers.end()) return std::nullopt;
  return std::string(it->second.data(), it->second.size());
}

}  // namespace pw::frontend
