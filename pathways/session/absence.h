// KeptAfter: the time for which the controller keeps a session whose connection has ended without a goodbye. If the network is
// cut or the client's machine sleeps, the client comes back and needs its arrays. If the client's process has ended, no client
// comes back, and others need the memory.
//
// The end of the connection tells the cases apart:
//   - A Unix socket: only the end of the process closes it. The session ends at once.
//   - TCP that fell silent: the network is cut, or the machine is off. The session is kept for the grace time.
//   - TCP that the client's own machine closed or reset: the network works. A client that lives hears of the close and is back in
//     a moment (it may have closed a connection that it took for dead). The session is kept for kMomentToReturn.
//   - TCP that another machine closed (address translation, a tunnel, a proxy), which knows little of the client. The session is
//     kept for the grace time. That machine shows by its address: the client has told us the address of its own end, and the end
//     that we see has another one.
// Workers' connections are judged in the same way (controller/cluster/members/host_streams.h). The grace time is --client-grace
// for sessions, --host-grace for hosts.
// An agent that stops, also because its program has ended or was killed, says goodbye, which ends the session at once.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace pw::session {

inline constexpr absl::Duration kMomentToReturn = absl::Seconds(10);

// A connection that has ended, to a client or a host.
struct EndedConnection {
  bool breakable = true;     // the network can break it; false for a Unix socket
  std::string far_end;       // the address of the other end, as that end told it (own_end in SessionHello or Hello)
  std::string far_end_here;  // the address of the other end, as the controller's machine sees it
  absl::Status reason;       // of the end: net::ClosedByPeer tells whether the other end, or a proxy, closed it
};

// Returns how long the session, or the host, is kept; zero: it ends now. `grace`: the upper limit.
absl::Duration KeptAfter(const EndedConnection& connection, absl::Duration grace);

}  // namespace pw::session
