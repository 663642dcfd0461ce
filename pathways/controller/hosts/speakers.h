// Speakers: decides which hosts report completions through which other host (worker.proto, Report). ClusterImpl tells the hosts.
//
// Hosts are in groups. The first host of a group is its speaker and reports for all of it. The loss of a member changes nothing
// for the others, unless the member was the speaker. Joining hosts fill groups that have room. When losses have left more than
// twice as many groups as needed, all groups are made anew.
//
// Size of a group. For a call over all hosts the controller receives one frame from each group, and a speaker receives one from
// each member; speakers have more idle processor time. A report is delayed by the time that receiving the others takes, some ten
// microseconds a frame. With groups of kMost hosts, receiving costs the controller less than sending the commands did, for dozens
// to thousands of hosts; reports are delayed by some hundred microseconds. In clusters of up to kFew hosts that is not worth it,
// and every host reports directly. The hosts of a command for at most kFew of them also report directly, in clusters of any size
// (Join).
//
// Distance between hosts matters little, since all of them are as far from the controller. Groups follow the order of the host numbers,
// which are consecutive within an island.
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

class Speakers {
 public:
  static constexpr size_t kFew = 8;
  static constexpr size_t kMost = 32;

  // Returns whether completions of a command over this number of hosts may come through other hosts.
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
