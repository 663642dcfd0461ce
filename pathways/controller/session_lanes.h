// SessionLanes: to which hosts a session has lanes, and which of its host buffers go there. Strand-confined.
//
// Invariants:
//   LS-1  a host knows the session's key before any command that has to do with its lane, and the client is told of the lane once
//   LS-2  each buffer that was begun is told to the client as done, once, unless the session ends first
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/controller/fabric.h"
#include "pathways/session/lane_routes.h"
#include "pathways/session/session.h"

namespace pw::controller {

class SessionLanes final : public session::LaneRoutes {
 public:
  using Fetched = absl::AnyInvocable<void(absl::StatusOr<session::FetchedArray>) &&>;
  using Fetch = std::function<void(uint64_t array, session::LaneFetch fetch, Fetched done)>;

  // `fabric` outlives this. `fetch` is the session's way to read an array.
  SessionLanes(SessionId id, Fabric* fabric, Fetch fetch) : id_(id), fabric_(fabric), fetch_(std::move(fetch)) {}

  // LaneRoutes
  void SetListener(std::weak_ptr<session::LaneListener> listener) override { listener_ = std::move(listener); }
  void FetchByLane(uint64_t array, session::LaneFetch fetch, Fetched done) override {
    fetch_(array, std::move(fetch), std::move(done));
  }
  void OnLaneLost(HostId host, const absl::Status& status) override;

  // FAILED_PRECONDITION: the host, or the client, has no part in lanes.
  absl::Status Check(HostId host) const;
  // Likewise for all hosts that are to get a buffer; INVALID_ARGUMENT: it cannot come by lane. REQUIRES: the shards' devices are there.
  absl::Status CheckSource(const buffers::ArraySpec& spec, const session::HostShard& source) const;
  // REQUIRES: Check.
  void Open(HostId host);
  void OnHostLost(HostId host, const absl::Status& error);

  // A buffer is done when it has been Left as often as it was Entered.
  bool HasBuffer(uint64_t buffer) const { return buffers_.contains(buffer); }
  void Enter(uint64_t buffer) { ++buffers_[buffer]; }
  void Leave(uint64_t buffer);

 private:
  const SessionId id_;
  Fabric* const fabric_;
  const Fetch fetch_;
  std::weak_ptr<session::LaneListener> listener_;
  absl::flat_hash_set<HostId> open_;
  absl::flat_hash_map<uint64_t, int> buffers_;  // how many hosts, and the request itself, are not done with them
};

}  // namespace pw::controller
