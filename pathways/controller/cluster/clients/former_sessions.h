// FormerSessions: decides which sessions of the controller before may be restored, and when (session/restoration.h).
//
// They may come back once the cluster has formed and all hosts that keep something have reported it, until the grace time after that is over.
// Then hosts free what is left of the others.
//
// Strand-confined.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/controller/cluster/clients/session_registry.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class FormerSessions {
 public:
  // The parts outlive this.
  FormerSessions(ClusterContext context, Fabric* fabric, SessionRegistry* registry)
      : context_(std::move(context)), fabric_(fabric), registry_(registry) {}

  // A host joins while the cluster forms. Returns the sessions that it is to keep, and waits for its report.
  std::vector<SessionId> Await(HostId host, const ::pathways::v1::Hello& hello);
  // The cluster has formed: the grace time begins.
  void OnFormed();
  // RESOURCE_EXHAUSTED: not yet. UNAVAILABLE: never.
  absl::Status CanRestore(SessionId session) const;

 private:
  void GiveUp();

  const ClusterContext context_;
  Fabric* const fabric_;
  SessionRegistry* const registry_;
  bool formed_ = false;
  bool over_ = false;  // the grace time
};

}  // namespace pw::controller
