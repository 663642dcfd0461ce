#include "pathways/controller/hosts/report_groups.h"

#include <algorithm>
#include <iterator>

namespace pw::controller {

void ReportGroups::SetHosts(const std::set<HostId>& hosts) {
  std::set<HostId> grouped;
  for (std::vector<HostId>& group : groups_) {
    std::erase_if(group, [&](HostId host) { return !hosts.contains(host); });
    grouped.insert(group.begin(), group.end());
  }
  std::erase_if(groups_, [](const std::vector<HostId>& group) { return group.empty(); });
  const size_t needed = (hosts.size() + kMost - 1) / kMost;
  if (hosts.size() <= kFew || groups_.size() > 2 * needed) {
    groups_.clear();
    grouped.clear();
  }
  std::vector<HostId> joined;
  std::set_difference(hosts.begin(), hosts.end(), grouped.begin(), grouped.end(), std::back_inserter(joined));
  if (hosts.size() > kFew) AddToGroups(joined);
  speaker_.clear();
  for (const std::vector<HostId>& group : groups_) {
    if (group.size() == 1) continue;
    for (HostId host : group) speaker_[host] = group.front();
  }
}

void ReportGroups::AddToGroups(const std::vector<HostId>& hosts) {
  size_t at = 0;
  for (HostId host : hosts) {
    while (at < groups_.size() && groups_[at].size() >= kMost) ++at;
    if (at == groups_.size()) groups_.emplace_back();
    groups_[at].push_back(host);
  }
}

std::optional<HostId> ReportGroups::Of(HostId host) const {
  const auto it = speaker_.find(host);
  return it == speaker_.end() ? std::nullopt : std::optional<HostId>(it->second);
}

}  // namespace pw::controller
