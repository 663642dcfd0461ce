// HostJoiner: takes in the workers that join the cluster, numbers them and welcomes them.
//
// Forming. The cluster forms when expect_hosts workers have joined: it numbers all of them at once, in the order of their names
// (TO-3). A later worker takes the seat of a lost one if its devices fit (TO-7). Otherwise it gets the next numbers, and only later
// sessions see its devices.
//
// Returning. A worker that has lost its controller shows the place that it had there (worker.proto, Hello.former), and gets it. A cluster
// to which such a worker comes has formed before: if not all hosts have come within the grace time after it (controller_grace), it
// forms with those that have.
//
// Invariant JO-1: a worker gets one Welcome, or is refused with the reason. Its join token is never kept.
// Strand-confined, except where a method says any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/base/threads/executor.h"
#include "pathways/controller/cluster/clients/former_sessions.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/cluster/links/peer_links.h"
#include "pathways/controller/cluster/members/host_certificates.h"
#include "pathways/controller/cluster/members/host_streams.h"
#include "pathways/controller/cluster/members/membership.h"
#include "pathways/controller/cluster/observation/observation.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/status_report.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class HostJoiner {
 public:
  struct Parts {
    Fabric* fabric;
    Observation* observation;
    PeerLinks* links;
    HostStreams* streams;
    HostCertificates* certificates;
    Membership* members;
    FormerSessions* former_sessions;
  };

  // The parts must outlive this.
  HostJoiner(ClusterContext context, const Parts& parts);

  void OnHello(LinkId link, const ::pathways::v1::Hello& hello);
  // A worker that waited for the cluster to form has gone.
  void OnPendingLeft(LinkId link, const absl::Status& reason);

  // Runs `task` on the strand once the cluster has formed. Any thread.
  void WhenFormed(Task task);
  bool formed() const { return formed_; }
  uint64_t incarnation() const { return incarnation_; }
  // Returns UNAVAILABLE while the cluster has no hosts to serve clients with.
  absl::Status CanServe() const;
  void AddTo(StatusReport* report) const;

 private:
  std::string platform() const;
  void Form();
  void FormInTime();
  void Admit(LinkId link, HostId host, ::pathways::v1::Hello hello);
  ::pathways::v1::Welcome WelcomeFor(HostId host, const ::pathways::v1::Hello& hello);

  const ClusterContext context_;
  const Parts parts_;
  const net::Probe probe_;      // hosts find out with it whether they share a machine with the controller
  const uint64_t incarnation_;  // identifies this run; hosts show it to each other, and no other process can guess it
  std::map<LinkId, ::pathways::v1::Hello> pending_;  // in the order of their connections
  bool formed_ = false;
  bool returning_ = false;  // a worker has come that had a place under an earlier controller
  std::vector<Task> when_formed_;
};

}  // namespace pw::controller
