#include "pathways/controller/hosts/host_groups.h"

#include <utility>

#include "pathways/base/sort_and_merge.h"

namespace pw::controller {

void HostGroup::OnReleased(const buffers::LogicalArray& array) {
  if (array.owner() == *ending_) return;
  for (HostId host : hosts_) outbox_->Release(host, array.id());
}

HostGroup* HostGroups::Of(const resource::Topology& topology, const buffers::Sharding& sharding) {
  std::vector<HostId> hosts;
  for (DeviceId id : sharding.devices()) {
    const HostId host = topology.FindDevice(id)->host;
    if (hosts.empty() || hosts.back() != host) hosts.push_back(host);
  }
  SortAndMerge(hosts);
  return Of(std::move(hosts));
}

HostGroup* HostGroups::Of(std::vector<HostId> hosts) {
  std::unique_ptr<HostGroup>& group = groups_[hosts];
  if (group == nullptr) group = std::make_unique<HostGroup>(std::move(hosts), outbox_, &ending_);
  return group.get();
}

}  // namespace pw::controller
