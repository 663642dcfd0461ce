// Role: the rights of a token's owner (docs/security.md has the table).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::identity {

enum class Role {
  kUser,      // may have sessions, and see and change its own
  kOperator,  // may send every request
  kWorker,    // may join as a host, and learn where hosts join
};

// Returns "user", "operator" or "worker".
std::string RoleName(Role role);
absl::StatusOr<Role> ParseRole(absl::string_view name);

// The users of the tokens that a controller makes for itself and its own user (--operator-token-file, ...).
inline constexpr const char* kOwnUsers[] = {"operator", "launcher", "agent"};

// The authenticated user at the other end of a connection.
struct Caller {
  std::string user;
  Role role = Role::kUser;
  std::string token_id = {};  // empty: it was admitted by none of the cluster's own tokens

  bool is_operator() const { return role == Role::kOperator; }
};

}  // namespace pw::identity
