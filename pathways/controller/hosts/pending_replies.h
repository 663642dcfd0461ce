// PendingReplies: callbacks of questions to hosts that are not answered yet. Fabric has one for each kind of question. Strand-confined.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/sorted_keys.h"

namespace pw::controller {

template <class Reply>
class PendingReplies {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Reply>) &&>;

  // `session` is 0 for the cluster's own questions.
  void Add(uint64_t id, HostId host, SessionId session, Callback callback) {
    pending_.insert({Key(id, host), Pending{host, session, std::move(callback)}});
  }

  // Returns false if no callback waits for that answer from that host.
  bool Resolve(uint64_t id, HostId host, absl::StatusOr<Reply> reply) {
    auto it = pending_.find(Key(id, host));
    if (it == pending_.end()) return false;
    Callback callback = std::move(it->second.callback);
    pending_.erase(it);
    std::move(callback)(std::move(reply));
    return true;
  }

  void FailHost(HostId host, const absl::Status& error) {
    FailWhere(error, [host](const Pending& p) { return p.host == host; });
  }
  void FailSession(SessionId session, const absl::Status& error) {
    FailWhere(error, [session](const Pending& p) { return p.session == session; });
  }
  size_t size() const { return pending_.size(); }

 private:
  struct Pending {
    HostId host;
    SessionId session;
    Callback callback;
  };

  template <class Predicate>
  void FailWhere(const absl::Status& error, Predicate predicate) {
    for (Pending& pending : TakeWhere(pending_, predicate)) std::move(pending.callback)(error);
  }

  using Key = std::pair<uint64_t, HostId>;  // several hosts may get the same question
  absl::flat_hash_map<Key, Pending> pending_;
};

}  // namespace pw::controller
