// HostHoldings: the arrays that hosts keep of sessions of the controller before (worker.proto, Holdings), until these sessions are restored or given
// up. Fabric owns it.
//
// Pure. Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class HostHoldings {
 public:
  // The host will report what it has of these sessions.
  void Await(HostId host, const std::vector<SessionId>& sessions);
  // Takes in a part of the report. INVALID_ARGUMENT: the host keeps no such sessions, or its report does not add up.
  absl::Status Add(HostId host, const ::pathways::v1::Holdings& part);
  void RemoveHost(HostId host);
  // Forgets the session: it is restored, or has ended.
  void Forget(SessionId session) { sessions_.erase(session); }

  bool complete() const { return awaited_.empty(); }
  std::vector<SessionId> sessions() const;
  // Returns an error if the session cannot be restored because of what hosts have, or have not.
  absl::Status Check(SessionId session) const;
  // Returns OK if the host has the array, with shards like shard 0 of `spec`; INVALID_ARGUMENT if they are others; its error if it is poisoned;
  // none if it is not there. `memory_kind`: of the shards.
  struct Found {
    absl::Status state;
    bool poisoned = false;
  };
  std::optional<Found> Find(SessionId session, HostId host, ArrayId array, const buffers::ArraySpec& spec,
                    const std::string& memory_kind) const;
  void ForEach(SessionId session, absl::FunctionRef<void(HostId, ArrayId)> visit) const;

 private:
  struct Array {
    absl::Status error;
    std::shared_ptr<const ::pathways::v1::Holdings::Shape> shape;  // null: it is poisoned
  };
  struct Session {
    bool cut = false;  // a computation had begun and did not end
    bool own = false;  // it has arrays with own names, which cannot be told from those of this controller
    std::map<HostId, absl::flat_hash_map<ArrayId, Array>> arrays = {};
  };
  absl::Status Insert(HostId host, ArrayId array, Array entry);

  std::map<HostId, std::vector<SessionId>> awaited_;  // hosts whose report is not complete
  std::map<SessionId, Session> sessions_;
};

}  // namespace pw::controller
