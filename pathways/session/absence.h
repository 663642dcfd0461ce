// How long the controller keeps a session whose connection has ended without a goodbye. The client may be behind a network that is cut, or its machine
// asleep: then it comes back, and its arrays must be there. Or its process may have ended: then nobody comes, and others need the memory.
//
// The end of a connection tells:
//   - A Unix socket: the kernel closes it when the process ends, and nothing else breaks it. The session ends at once.
//   - TCP that fell silent: the network is cut, or the machine is off. Nobody can tell; the session is kept for the grace time.
//   - TCP that was closed or reset by the other end, when the client's machine itself is that end (it names its end of the connection as we see
//     it): word of it has come over the network, so the network works. A client that lives hears of it too, and is back in a moment (it may
//     have closed a connection that it took for dead). One that does not come has ended: kMomentToReturn.
//   - TCP that was closed when something else is that end (address translation, a tunnel, a proxy): that has closed it, and it knows little of the
//     client. The session is kept for the grace time.
// The same holds for hosts (controller/cluster/cluster_links.cc), for which --host-grace is the time.
// An agent that stops, also because its program has ended or was killed, says goodbye, which ends the session at once in any case.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace pw::session {

inline constexpr absl::Duration kMomentToReturn = absl::Seconds(10);

// A connection that has ended, to a client or a host.
struct EndedConnection {
  bool breakable = true;        // by the network (net/transport.h)
  std::string far_end;          // as the client's machine names it (SessionHello.own_end), or a host's (Hello.own_end)
  std::string far_end_here;     // as the controller's machine does
  absl::Status reason;
};

// Returns for how long the session, or the host, is kept; zero: it ends now. `grace`: the longest that it may be.
absl::Duration KeptAfter(const EndedConnection& connection, absl::Duration grace);

}  // namespace pw::session
