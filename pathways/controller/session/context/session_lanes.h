// SessionLanes: the hosts to which a session has lanes, and the host buffers that travel there. SessionImpl owns it. Strand-confined.
//
// Invariants:
//   LS-1  a host gets the session's key before any command that concerns its lane, and the client is told of each lane once
//   LS-2  each buffer that was begun is reported to the client as done, once, unless the session ends first
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/session/lane_routes.h"
#include "pathways/session/session.h"

namespace pw::controller {

class SessionLanes final : public session::LaneRoutes {
 public:
  using Fetched = absl::AnyInvocable<void(absl::StatusOr<session::FetchedArray>) &&>;
  using Fetch = std::function<void(uint64_t array, session::LaneFetch fetch, Fetched done)>;

  // `fabric` must outlive this. `fetch` reads an array of the session.
  SessionLanes(SessionId id, Fabric* fabric, Fetch fetch) : id_(id), fabric_(fabric), fetch_(std::move(fetch)) {}

  // LaneRoutes
  void SetListener(std::weak_ptr<session::LaneListener> listener) override { listener_ = std::move(listener); }
  void FetchByLane(uint64_t array, session::LaneFetch fetch, Fetched done) override {
    fetch_(array, std::move(fetch), std::move(done));
  }
  void OnLaneLost(HostId host, const absl::Status& status) override;

  // Returns the client's end of the lanes; null: the client has no lanes.
  std::shared_ptr<session::LaneListener> client() const { return listener_.lock(); }
  // FAILED_PRECONDITION if the host or the client does not use lanes.
  absl::Status Check(HostId host) const;
  // Returns OK if the source can travel by lane to all hosts of its shards. REQUIRES: their devices are present.
  absl::Status CheckSource(const buffers::ArraySpec& spec, const session::HostShard& source) const;
  // Opens the lane to the host, if it is not open. REQUIRES: Check.
  void Open(HostId host);
  // Opens the lanes on which a program of these hosts calls the client's functions. A client without lanes is called through the controller.
  void OpenForCalls(const std::vector<HostId>& hosts);
  void OnHostLost(HostId host, const absl::Status& error);
  // Tells the client that its slice has moved.
  void TellMoved(const session::SliceState& slice) const {
    if (auto listener = listener_.lock()) listener->OnSliceMoved(slice);
  }

  // Count the uses of a buffer: it is done when Leave has been called as often as Enter.
  bool HasBuffer(uint64_t buffer) const { return buffers_.contains(buffer); }
  void Enter(uint64_t buffer) { ++buffers_[buffer]; }
  void Leave(uint64_t buffer);

 private:
  const SessionId id_;
  Fabric* const fabric_;
  const Fetch fetch_;
  std::weak_ptr<session::LaneListener> listener_;
  absl::flat_hash_set<HostId> open_;
  absl::flat_hash_map<uint64_t, int> buffers_;  // the number of hosts, plus the request itself, that still use each
};

}  // namespace pw::controller
