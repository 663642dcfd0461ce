// Role: what the owner of a token may do (docs/security.md has the table).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::identity {

enum class Role {
  kUser,      // has sessions, and sees and touches its own
  kOperator,  // may do all that can be asked for
  kWorker,    // may join as a host, and learn where hosts join
};

// "user", "operator", "worker"
std::string RoleName(Role role);
absl::StatusOr<Role> ParseRole(absl::string_view name);

// The user at the other end of a connection, once that is known.
struct Caller {
  std::string user;
  Role role = Role::kUser;
  std::string token_id = {};  // empty: it needed no token

  bool is_operator() const { return role == Role::kOperator; }
};

}  // namespace pw::identity
