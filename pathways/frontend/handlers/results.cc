#include "pathways/frontend/handlers/results.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::frontend {

absl::StatusOr<Handles> ResultHandles(ClientSession& session, Handles requested, size_t count) {
  if (requested.empty()) requested.resize(count);
  if (requested.size() != count) {
    absl::Status error =
        absl::InvalidArgumentError(absl::StrCat("the request has ", count, " results but names ", requested.size()));
    session.Poison(requested, error);
    return error;
  }
  for (controller::Handle& handle : requested) {
    if (handle == 0) handle = session.session().NewHandle();
  }
  return requested;
}

Action FailWith(Handles results, absl::Status error) {
  return [results = std::move(results), error = std::move(error)](ClientSession& session, Reply reply) {
    session.Poison(results, error);
    std::move(reply).Fail(error);
  };
}

}  // namespace pw::frontend
