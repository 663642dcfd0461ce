// Answers operators' questions about tokens (session.proto, TokenQuestion).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {

// Returns the text of the answer.
absl::StatusOr<std::string> AnswerTokens(identity::ClusterIdentity& identity, const ::pathways::v1::TokenQuestion& question);

}  // namespace pw::session
