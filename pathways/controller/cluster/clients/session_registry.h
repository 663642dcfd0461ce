// SessionRegistry: the open sessions, by number, and the handlers of calls from running programs to Python functions of clients.
//
// It does not own sessions: their clients do, and a session leaves the registry in its destructor. Strand-confined.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/session.h"
#include "pathways/controller/session/publications/publications.h"
#include "pathways/controller/session/session_impl.h"

namespace pw::controller {

// Sessions of operators are numbered from here on.
inline constexpr SessionId kFirstObserver{uint64_t{1} << 32};

class SessionRegistry {
 public:
  struct Opened {
    SessionImpl* session;
    absl::Time since;
    bool observer = false;  // an operator, not a client
    std::shared_ptr<HostCallHandler> calls = nullptr;
    std::optional<absl::Time> away_since = {};  // its client has no connection
  };
  // `on_end` is called in the destructor of each session. The pointers must outlive this.
  SessionRegistry(Fabric* fabric, Clock* clock, std::function<void(SessionId)> on_end);

  // Opens a session. The caller sets its share.
  std::shared_ptr<Session> Open(session::NewSession about);
  // Gives new sessions greater numbers than this one.
  void Reserve(SessionId session) { next_client_ = std::max(next_client_, session.v + 1); }
  // Returns null if the session has ended.
  SessionImpl* Find(SessionId session) const;
  std::vector<SessionImpl*> All() const;
  const std::map<SessionId, Opened>& opened() const { return opened_; }

  // Changes the client's share of the devices' time; returns the complete share. NOT_FOUND lists the existing clients.
  absl::StatusOr<gang::Share> ChangeShare(SessionId session, const gang::ShareChange& change);
  // Sets the handler of calls from programs into the client's process; null: such calls fail.
  void SetHostCallHandler(SessionId session, std::shared_ptr<HostCallHandler> handler);
  // Notes that the session's client has lost its connection, or is back. Returns how long it was away.
  absl::Duration SetAway(SessionId session, bool away);
  // Passes a call from a program on the host to its client, and the answer back to the host.
  void OnHostCall(HostId host, const ::pathways::v1::HostCall& call, const Bytes& payload);

 private:
  void Reply(HostId host, uint64_t call, absl::StatusOr<std::vector<Bytes>> results);

  Fabric* const fabric_;
  Clock* const clock_;
  const std::function<void(SessionId)> on_end_;
  uint64_t next_client_ = 1;                   // clients and operators are numbered apart: clients' numbers
  uint64_t next_observer_ = kFirstObserver.v;  // do not depend on how often operators ask
  std::map<SessionId, Opened> opened_;
  const std::shared_ptr<Publications> publications_ = std::make_shared<Publications>();  // sessions hold it too
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
