#include "pathways/bulk/headers.h"

namespace pw::bulk {

std::optional<std::string> FindHeader(const grpc::ServerContextBase& context, std::string_view name) {
  const auto& headers = context.client_metadata();
  auto it = headers.find(grpc::string_ref(name.data(), name.size()));
  if (it == headers.end()) return std::nullopt;
  return std::string(it->second.data(), it->second.size());
}

}  // namespace pw::bulk
