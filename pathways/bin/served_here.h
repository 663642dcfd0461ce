// The common parts of servers for operators' tools: addresses of this machine, and secrets in files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/net/address.h"

namespace pw {

bool StaysOnThisMachine(const net::Address& address);

// Returns the secret in a file, the first word. `flag` is the one that names it. INVALID_ARGUMENT: there is none, or it is short.
absl::StatusOr<std::string> ReadSecret(const std::string& flag, const std::string& path);

}  // namespace pw
