// ClientSessions: opens the sessions of clients within the quotas of their users, and keeps to these quotas while the sessions are
// open.
//
// A session of a limited user begins with the share that the quota allows, and waits while the user has too many sessions
// (user_quotas.h). Its computations are refused once the user's device time of the day is used up. Hosts apply limits of memory and of
// processes: they are told of the sessions of users who have such limits, in their configuration. Operators, who only look, may open
// sessions at any time; clients only while the cluster can serve them.
//
// Invariants:
//   CQ-1  UserQuotas counts each open session of a limited user. Its computations are refused at the latest one tick after the user's
//         device time is used up
//   CQ-2  a host gets no command of a session before it knows the limits that the session's user had when it was opened
// Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/controller/cluster/clients/session_registry.h"
#include "pathways/controller/cluster/clients/user_quotas.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/cluster/observation/observation.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/session.h"
#include "pathways/controller/slices/slices.h"
#include "pathways/controller/status_report.h"

namespace pw::controller {

class ClientSessions {
 public:
  struct Parts {
    Fabric* fabric;
    Housekeeping* housekeeping;
    Observation* observation;
    SessionRegistry* registry;
    Slices* slices;
  };
  // The parts must outlive this. `can_serve` returns the error that clients get while the cluster cannot serve them.
  ClientSessions(ClusterContext context, const Parts& parts, std::function<absl::Status()> can_serve);

  // Opens the session when its user has room for it. `done` runs in a task of its own.
  void Open(session::NewSession session, ResultCallback<std::shared_ptr<Session>> done);
  // Opens the session at once, even beyond its user's quota.
  absl::StatusOr<std::shared_ptr<Session>> OpenNow(session::NewSession session);
  // Makes later calls of Open and OpenNow fail, because the controller ends.
  void Stop() { stopped_ = true; }

  // Notes, for operators, that the client's connection has broken, or that the client is back.
  void SetAway(SessionId session, bool away);
  // Frees the ended session's place in its user's quota.
  void OnEnded(SessionId session);

  // Opens sessions that waited for a quota, and refuses the computations of users who have used up theirs. Call it once a tick, and
  // when quotas have changed.
  void ApplyQuotas();
  // Returns an error if the session's share after the change would be more than its user's quota allows.
  absl::Status CheckQuota(SessionId session, const gang::ShareChange& change);
  // Returns what each user with a quota uses of it now.
  std::vector<session::UserUse> Use();

  // Adds clients to the report: those of `user`, or all.
  void AddTo(const std::optional<std::string>& user, StatusReport* report) const;
  // Returns whether the session is open and the user's.
  bool IsOf(SessionId session, const std::string& user) const;

 private:
  // Tells the hosts of the users whose use of a host is limited, if that has changed. `told` runs once, maybe inside this call, when they
  // know it.
  void TellHosts(absl::AnyInvocable<void() &&> told);
  // Opens a session whose user has room for it.
  void OpenWithin(session::NewSession session, const gang::Share& share, ResultCallback<std::shared_ptr<Session>> done);

  const ClusterContext context_;
  Fabric* const fabric_;
  Housekeeping* const housekeeping_;
  Observation* const observation_;
  SessionRegistry* const registry_;
  Slices* const slices_;
  const std::function<absl::Status()> can_serve_;
  UserQuotas quotas_;
  bool stopped_ = false;
};

}  // namespace pw::controller
