// LaterRequests: requests of a program that wait for its next one.
//
// Nobody waits for a dropped array, nor for a small one from host memory before a computation takes it, and a request of its own costs as much as a
// small call. So these go with the next request, before it (base/gathered.h).
#pragma once

#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/session/session.h"

namespace pw::client {

struct LaterRequests {
  std::vector<absl::AnyInvocable<void(session::Session&) &&>> puts;
  std::vector<session::Handle> drops;  // of arrays, maybe of those that are put

  bool empty() const { return puts.empty() && drops.empty(); }
  // On the session's strand.
  void Send(session::Session& session) {
    for (auto& put : puts) std::move(put)(session);
    if (!drops.empty()) session.Destruct(drops).IgnoreError();  // what a session does not know is gone already
  }
};

}  // namespace pw::client
