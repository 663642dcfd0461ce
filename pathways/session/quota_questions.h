// Answers questions about users' quotas (session.proto, QuotaQuestion).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {

// Returns the text of the answer. `caller`: an operator, if the question is a change. A change is applied to sessions that wait.
absl::StatusOr<std::string> AnswerQuotas(identity::ClusterIdentity& identity, Cluster& cluster, const identity::Caller& caller,
                                         const ::pathways::v1::QuotaQuestion& question);

}  // namespace pw::session
