// Speakers: decides which hosts report completions through which other host (worker.proto, Report). ClusterImpl tells the hosts.
//
// Hosts are in groups; the first host of a group, its speaker, reports for all of it. Groups stay as they are when hosts come and go: a
// loss concerns only the group of the lost host, and only if that was the speaker; joining hosts fill groups that have room. When losses
// have left more than twice as many groups as needed, all groups are made anew.
//
// Size of a group. For a call over all hosts the controller receives one frame from each group, and a speaker receives one from each
// member; speakers have more idle processor time. A report is delayed by the time that receiving the others takes, some ten microseconds a
// frame. Groups of kMost hosts keep the controller's cost of receiving below its cost of sending as many commands, for dozens to thousands
// of hosts, and delay reports by some hundred microseconds. In clusters of up to kFew hosts that is not worth it, and every host reports
// directly; so do the hosts of a command that concerns at most kFew of them (Join), in clusters of any size.
//
// Distance between hosts matters little, since all of them are as far from the controller. Groups follow the order of the host numbers,
// which are consecutive within an island.
//
// Pure.
//
// Invariants:
//   SP-1  a speaker speaks for itself too
//   SP-2  a host that is absent, or alone in its group, has no speaker; every speaker is present
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "pathways/base/ids.h"

namespace pw::controller {

class Speakers {
 public:
  static constexpr size_t kFew = 8;
  static constexpr size_t kMost = 32;

  // Returns whether completions of a command with parts on so many hosts may come through other hosts.
  static bool Join(size_t hosts) { return hosts > kFew; }

  // Sets the present hosts.
  void SetHosts(const std::set<HostId>& hosts);
  // Returns the host's speaker; none: it reports directly.
  std::optional<HostId> Of(HostId host) const;

 private:
  void AddToGroups(const std::vector<HostId>& hosts);

  std::vector<std::vector<HostId>> groups_;  // none is empty
  std::map<HostId, HostId> speaker_;
};

}  // namespace pw::controller
