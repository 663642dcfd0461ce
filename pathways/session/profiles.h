// Profiles of a cluster: records of the work of its hosts and their devices for a while, as an XSpace of each host (proto/xla/xplane.proto). A
// profile belongs to a session: that session alone stops, reads and drops it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/session/basics.h"
#include "pathways/session/reports.h"

namespace pw::session {

inline constexpr absl::Duration kLongestProfile = absl::Minutes(10);     // then it is given up
inline constexpr absl::Duration kUndisturbedProfile = absl::Minutes(1);  // then a user's makes way for another user's

// The contents of a profile, and how large it may become.
struct ProfileOptions {
  // All clients, and the events of the device runtimes; else the session's own computations and transfers alone.
  bool everything = false;
  bool merged = false;     // the hosts' XSpaces will be merged into one
  uint64_t max_bytes = 0;  // of each host; 0: the most that a host keeps
};

// A profile that has been recorded. The hosts keep it until its session ends, drops it, or another recording begins.
struct ClusterProfile {
  struct Host {
    std::string name;
    uint64_t bytes = 0;   // of its XSpace
    std::string missing;  // what it lacks, and why; empty: nothing
  };
  std::vector<Host> hosts;
  ClusterTrace trace;  // of the same time; empty unless the profile shows everything
};

// The part of a Cluster that records profiles. As there, a callback runs exactly once, on the strand, never inside the call.
class Profiles {
 public:
  virtual ~Profiles() = default;
  // Starts to record, until the session ends or kLongestProfile passes; answers when all hosts record. FAILED_PRECONDITION while another recording
  // runs. But a recording of everything, a trace too, ends a profile that is not of everything.
  virtual void StartProfile(SessionId session, const ProfileOptions& options, StatusCallback done) = 0;
  // FAILED_PRECONDITION if the session records none.
  virtual void StopProfile(SessionId session, ResultCallback<ClusterProfile> done) = 0;
  // Gets bytes of a host's XSpace, from this offset on; none at its end. `host`: its place in ClusterProfile::hosts. NOT_FOUND if the session has no
  // profile, UNAVAILABLE if the host does not keep it any more.
  virtual void ReadProfile(SessionId session, size_t host, uint64_t offset, ResultCallback<Bytes> done) = 0;
  // The hosts need not keep the profile any more. One that is being recorded is given up.
  virtual void DropProfile(SessionId session) = 0;
};

}  // namespace pw::session
