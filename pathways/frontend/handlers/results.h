// Helpers of most array handlers, for the handles of their results.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_field.h"
#include "pathways/frontend/client_session.h"

namespace pw::frontend {

using Handles = std::vector<controller::Handle>;

inline Handles ToHandles(const google::protobuf::RepeatedField<uint64_t>& field) { return {field.begin(), field.end()}; }
inline Handles OneHandle(controller::Handle handle) { return {handle}; }

// Returns the handles that the client chose, or new ones if it chose none. INVALID_ARGUMENT if their number is not `count`; then the given
// handles hold that error.
absl::StatusOr<Handles> ResultHandles(ClientSession& session, Handles requested, size_t count);

// Returns an action that binds `error` to the results and answers with it.
Action FailWith(Handles results, absl::Status error);

inline Future<Unit> ReadyFuture(const absl::Status& status) {
  return status.ok() ? Future<Unit>::Ready(Unit{}) : Future<Unit>::Ready(status);
}

}  // namespace pw::frontend
