// LaterRequests: requests of a Client that need not be sent at once. They go with its next request, just before it; if none
// comes, a timer sends them (Client::kSweep, base/threads/gathered.h).
//
// Two kinds can wait: the release of dropped arrays, and the creation of small arrays from host memory. No caller waits for their
// answers, and sending one alone costs as much as a small call.
#pragma once

#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/session/session.h"

namespace pw::client {

struct LaterRequests {
  std::vector<absl::AnyInvocable<void(session::Session&) &&>> puts;
  std::vector<session::Handle> drops;  // arrays to release; `puts` may make some of them

  bool empty() const { return puts.empty() && drops.empty(); }
  // On the session's strand.
  void Send(session::Session& session) {
    for (auto& put : puts) std::move(put)(session);
    if (!drops.empty()) session.Destruct(drops).IgnoreError();  // an array that the session does not know is gone already
  }
};

}  // namespace pw::client
