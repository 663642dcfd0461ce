// The common parts of servers for operators' tools: addresses of this machine, and small files.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/net/address.h"

namespace pw {

bool StaysOnThisMachine(const net::Address& address);  // only processes of this machine can connect to it

// Returns the file, at most its first `most_bytes`. NOT_FOUND: it is not there, or cannot be read.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t most_bytes);

// Returns the secret in a file, its first word. `flag` is the flag that names the file. INVALID_ARGUMENT: none, or a short one.
absl::StatusOr<std::string> ReadSecret(const std::string& flag, const std::string& path);

}  // namespace pw
