// HostGroups: the sets of hosts that hold arrays' shards; when an array is released, its group tells the hosts.
//
// There is one HostGroup for each distinct set of hosts that an array ever had. So an array needs no memory of its own for it, and
// releasing one costs a lookup for each host, not for each shard. Strand-confined; groups live as long as this object.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/buffers/sharding.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/resource/topology.h"

namespace pw::controller {

class HostGroup final : public buffers::LogicalArray::Listener {
 public:
  HostGroup(std::vector<HostId> hosts, dispatch::Outbox* outbox, const SessionId* ending)
      : hosts_(std::move(hosts)), outbox_(outbox), ending_(ending) {}
  const std::vector<HostId>& hosts() const { return hosts_; }
  void OnReleased(const buffers::LogicalArray& array) override;

 private:
  const std::vector<HostId> hosts_;
  dispatch::Outbox* const outbox_;
  const SessionId* const ending_;
};

class HostGroups {
 public:
  explicit HostGroups(dispatch::Outbox* outbox) : outbox_(outbox) {}

  // REQUIRES: the devices are present.
  HostGroup* Of(const resource::Topology& topology, const buffers::Sharding& sharding);
  HostGroup* Of(std::vector<HostId> ascending_hosts);

  // While a session ends, its arrays are not released one by one: the hosts are told to free everything it owns.
  void set_ending_session(SessionId session) { ending_ = session; }

 private:
  dispatch::Outbox* const outbox_;
  SessionId ending_;
  std::map<std::vector<HostId>, std::unique_ptr<HostGroup>> groups_;
};

}  // namespace pw::controller
