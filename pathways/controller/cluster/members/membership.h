// Membership: the hosts of the cluster, with their seats and devices. It tells the hosts (worker.proto, Peers), the sessions,
// housekeeping and slices of each change, and updates the description of the cluster that clients get.
//
// Losing. Arrays with a shard on a lost host become errors that name it, operations that wait for it fail, and the other hosts are
// told. Sessions go on. A worker that returns is a new host in the old seat (TO-7): the open sessions use its devices under the
// ids that they know. The arrays stay lost.
//
// Invariants:
//   MB-1  a host is a member from Add until Lose; each has one entry in the topology, Fabric and Housekeeping meanwhile
//   MB-2  when a host is lost, the arrays there become errors before the operations that wait for it fail
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/controller/cluster/clients/session_registry.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/cluster/members/grouped_reports.h"
#include "pathways/controller/cluster/observation/observation.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/session.h"
#include "pathways/controller/status_report.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Membership {
 public:
  struct Parts {
    Fabric* fabric;
    Housekeeping* housekeeping;
    GroupedReports* reports;
    Observation* observation;
    SessionRegistry* sessions;
  };

  // The parts must outlive this. `topology_changed` is called when devices have come or gone.
  Membership(ClusterContext context, const Parts& parts, std::function<void()> topology_changed)
      : context_(std::move(context)), parts_(parts), topology_changed_(std::move(topology_changed)) {}

  // Adds a host that is in the topology. `sink`, for frames to it, must stay valid until the host is lost.
  void Add(HostId host, ::pathways::v1::Hello hello, net::FrameSink* sink);
  // Tells the hosts of each other, and updates what clients see. Call it after Add.
  void Announce();
  // Tells the sessions, if the host's devices are those of a host that was lost. Call it after Announce.
  void TakeSeat(HostId host);
  // Loses a host for good; returns the error that names it. None: it is no member. `since`: when it was gone.
  std::optional<absl::Status> Lose(HostId host, absl::Time since, const absl::Status& reason);
  // Forgets all hosts when the cluster stops.
  void Clear() { hosts_.clear(); }

  bool Has(HostId host) const { return hosts_.contains(host); }
  bool empty() const { return hosts_.empty(); }
  size_t size() const { return hosts_.size(); }
  std::vector<HostId> hosts() const;
  const ::pathways::v1::Hello& hello(HostId host) const { return hosts_.at(host); }
  std::string platform() const { return hosts_.empty() ? "" : hosts_.begin()->second.platform_name(); }
  // Returns the host's name for people. REQUIRES: it is in the topology.
  std::string NameOf(HostId host) const;
  const std::shared_ptr<const ClusterInfo>& info() const { return info_; }
  void AddTo(StatusReport* report) const;

 private:
  absl::Status LossError(const resource::Host& host, absl::Time since, const absl::Status& reason) const;
  void LoseDevices(const resource::Host& host, const absl::Status& error);

  const ClusterContext context_;
  const Parts parts_;
  const std::function<void()> topology_changed_;
  std::map<HostId, ::pathways::v1::Hello> hosts_;
  mutable std::shared_ptr<const resource::Snapshot> snapshot_;  // of an epoch of the topology; null: not asked for yet
  std::shared_ptr<const ClusterInfo> info_ = std::make_shared<const ClusterInfo>();
};

}  // namespace pw::controller
