// FormerSessions: decides which sessions of the controller before may be restored, and when (session/restoration.h).
//
// They may come back once the cluster has formed and all hosts that keep something have reported it, until the grace time after that is over.
// Then hosts free what is left of the others.
//
// Until all sessions that hosts know of are back, and for kBackWithin for others, no virtual slices are placed: the former sessions' clients
// tell theirs, with devices and numbers that nobody else must get (resource/slice_table.h).
//
// Strand-confined.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/controller/cluster/clients/session_registry.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class FormerSessions {
 public:
  // `hold` is called with true when the former sessions may come back with slices, and with false when they are back. The parts outlive this.
  FormerSessions(ClusterContext context, Fabric* fabric, SessionRegistry* registry, std::function<void(bool)> hold)
      : context_(std::move(context)), fabric_(fabric), registry_(registry), hold_(std::move(hold)) {}

  // A host joins while the cluster forms. Returns the sessions that it is to keep, and waits for its report.
  std::vector<SessionId> Await(HostId host, const ::pathways::v1::Hello& hello);
  // The cluster has formed: the grace time begins.
  void OnFormed();
  // RESOURCE_EXHAUSTED: not yet. UNAVAILABLE: never.
  absl::Status CanRestore(SessionId session) const;
  // Runs `task` once former sessions are back with their slices: in this call, or in OnTick.
  void WhenBack(absl::AnyInvocable<void() &&> task);
  void OnTick();  // once a tick

 private:
  // Clients without arrays, of which hosts do not know, come back within this time.
  static constexpr absl::Duration kBackWithin = absl::Seconds(2);

  void GiveUp();
  bool AreBack() const;

  const ClusterContext context_;
  Fabric* const fabric_;
  SessionRegistry* const registry_;
  const std::function<void(bool)> hold_;
  bool expected_ = false;  // a host comes from another controller
  absl::Time formed_at_;
  bool formed_ = false;
  bool over_ = false;  // the grace time
  bool held_ = false;
  std::vector<absl::AnyInvocable<void() &&>> when_back_;
};

}  // namespace pw::controller
