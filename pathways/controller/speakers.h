// Speakers: which hosts report completions through which other one (worker.proto, Report).
//
// Hosts are in groups; the first of each speaks for the others, and for itself. A group stays what it is when others come and go, so that
// a loss changes the way of nobody but, if it was the one that spoke, those of its group; who joins fills up groups that have room. When
// losses have left more than twice as many groups as there need be, all are made anew.
//
// How large: the frames that the controller receives for a call over all hosts are the groups, and each that one host receives, whose
// processors have less to do, its members; and a report is late by what receiving the others takes. A frame costs some ten
// microseconds. So groups of kMost keep the controller's share below what it costs to send as many commands, from dozens of hosts to
// thousands, and add some hundred microseconds. Where that is not worth it nothing is late: in clusters of up to kFew hosts everybody
// reports alone, and so do the hosts of a command that concerns no more of them (Join), however large the cluster.
//
// Which hosts are near to each other does not matter much, since all of them are as far from the controller; they come in the order
// of their numbers, which those of an island have in a row.
//
// Pure.
//
// Invariants:
//   SP-1  who speaks, speaks for itself too
//   SP-2  nobody is spoken for that is not there, or alone in its group, or by a host that is not there
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

  // Whether completions of a command with parts on so many hosts may come through others.
  static bool Join(size_t hosts) { return hosts > kFew; }

  // The hosts that there are.
  void SetHosts(const std::set<HostId>& hosts);
  // Who speaks for it; none: it reports alone.
  std::optional<HostId> Of(HostId host) const;

 private:
  void AddToGroups(const std::vector<HostId>& hosts);

  std::vector<std::vector<HostId>> groups_;  // none is empty
  std::map<HostId, HostId> speaker_;
};

}  // namespace pw::controller
