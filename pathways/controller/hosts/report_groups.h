// ReportGroups: groups the hosts, so that one host of a group, its speaker, reports the completions of all of them to the controller
// (worker.proto, Report). Membership tells the hosts.
//
// The first host of a group is its speaker. If it is lost, the next one takes over; the loss of another member changes nothing
// for the others. New hosts fill groups that have room. When losses have left more than twice as many groups as needed, all
// groups are made anew.
//
// Size of a group. For a command to all hosts the controller receives one frame from each group, and a speaker receives one from
// each member; hosts have more idle processor time than the controller. A member's report waits while its speaker receives the reports of
// the others, some ten microseconds each. With groups of kMost hosts, receiving costs the controller less than sending the commands
// did, for dozens to thousands of hosts; reports are delayed by some hundred microseconds. For few hosts that is not worth it. In
// clusters of up to kFew hosts, and after a command to at most kFew hosts of a larger cluster (Join), each host reports directly.
//
// Distance between the hosts of a group matters little, since all are equally far from the controller. Groups follow the order of
// the host numbers, which are consecutive within an island.
//
// Pure.
//
// Invariants:
//   SK-1  a speaker speaks for itself too
//   SK-2  a host that is absent, or alone in its group, has no speaker; every speaker is present
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "pathways/base/ids.h"

namespace pw::controller {

class ReportGroups {
 public:
  static constexpr size_t kFew = 8;
  static constexpr size_t kMost = 32;

  // Returns whether hosts may report the completion of a command to this number of hosts through their speakers.
  static bool Join(size_t hosts) { return hosts > kFew; }

  // Sets the hosts that are present, and changes the groups accordingly.
  void SetHosts(const std::set<HostId>& hosts);
  // Returns the host's speaker; none: it reports directly.
  std::optional<HostId> Of(HostId host) const;

 private:
  void AddToGroups(const std::vector<HostId>& hosts);

  std::vector<std::vector<HostId>> groups_;  // none is empty
  std::map<HostId, HostId> speaker_;
};

}  // namespace pw::controller
