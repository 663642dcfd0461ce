// Heartbeats: pings the peers of the controller once a tick, and finds those that are silent for too long.
//
// The caller treats a silent host as lost, or as away (host_streams.h). A host on the controller's machine that is silent because it
// waits for a processor is kept for longer (starved_hosts.h). If this process was stopped itself, silence is not the hosts' fault.
//
// Invariant HE-1: a ping goes only to hosts, to device runtimes (peer_links.h), and to workers that wait for the cluster to form.
// Strand-confined.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/cluster/links/peer_links.h"
#include "pathways/controller/cluster/members/host_streams.h"
#include "pathways/controller/cluster/members/starved_hosts.h"

namespace pw::controller {

class Heartbeats {
 public:
  // The pointers must outlive this.
  Heartbeats(ClusterContext context, PeerLinks* links, HostStreams* streams, StarvedHosts* starved)
      : context_(std::move(context)), links_(links), streams_(streams), starved_(starved), last_tick_(context_.Now()) {}

  // Begins a tick. Returns for how long this process was stopped (as by SIGSTOP) until now; zero if it ran.
  absl::Duration OnTick(absl::Time now);
  // Returns whether this process was stopped until now. Call it before OnTick.
  bool SleptUntil(absl::Time now) const { return now - last_tick_ > context_.options().heartbeat_limit / 2; }
  // Pings the peers. Returns the links that were silent for too long; if this process `slept`, silence is counted from now on.
  std::vector<LinkId> Ping(absl::Time now, bool slept);

 private:
  bool IsStarved(const PeerLinks::Peer& peer, absl::Time now);

  const ClusterContext context_;
  PeerLinks* const links_;
  HostStreams* const streams_;
  StarvedHosts* const starved_;
  absl::Time last_tick_;
  uint64_t next_ping_ = 1;
};

}  // namespace pw::controller
