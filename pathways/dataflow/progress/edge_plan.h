// EdgePlan: one host's part in an edge: its shards at both ends, and the ways of the reports that close the edge.
//
// When all its shards of the source node are done, a source host reports what they sent to each destination shard. Reports take
// one of two ways, chosen by the size of the edge alone, so that all hosts choose alike:
//   direct   each source host reports to each destination host concerned. For one-to-one edges, and where there are at most
//            `direct_pairs` pairs of hosts.
//   tree     source hosts add up along a tree of the source hosts; its root hands the sum to the first destination host; from
//   there
//            every destination host gets its part along a tree of the destination hosts. S + D hosts: at most S + D - 1 reports,
//            none with more than `fan_in` per level to hear, and the hops grow with the logarithm of the hosts.
//
// Invariants:
//   EP-1  the reports of an edge are O(hosts), whatever the number of shards
//   EP-2  memory is O(shards of the edge on this host + direct_pairs + fan_in x levels)
// Immutable, pure; made once per graph and host, shared by all runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pathways/dataflow/graph.h"
#include "pathways/dataflow/progress/report_tree.h"

namespace pw::dataflow {

struct ProgressKnobs {
  uint32_t fan_in = 64;        // of the trees; at least 2
  uint32_t direct_pairs = 64;  // up to so many pairs of hosts, source hosts report directly
};

// For hosts that reach the coordinator and nobody else: nobody adds up for others.
inline ProgressKnobs StarKnobs() { return {.direct_pairs = UINT32_MAX}; }

struct EdgePlan {
  // `from` and `to` outlive the plan.
  EdgePlan(EdgeKind kind, const Placement& from, const Placement& to, HostId self, const ProgressKnobs& knobs);

  // Nothing of the edge concerns this host.
  bool idle() const { return sources.empty() && destinations.empty(); }
  // Whether a source shard may send to a destination shard.
  bool Allows(uint32_t source, uint32_t destination) const;
  // Whether tuples or reports of the edge may go to that host, or come from it.
  bool TalksTo(HostId other) const;
  // Reports alone.
  bool ReportsTo(HostId other) const;
  // A failed source shard poisons all destination shards, or, one-to-one, its own only.
  bool poisons_all() const { return kind != EdgeKind::kOneToOne; }

  EdgeKind kind;
  const Placement* from;
  const Placement* to;
  HostId self;
  std::vector<uint32_t> sources;       // this host's shards of the source node, ascending
  std::vector<uint32_t> destinations;  // and of the destination node
  bool direct = false;

  // Direct. Ascending; this host itself may be among them.
  std::vector<HostId> report_to;
  std::vector<HostId> reporters;

  // Tree of the source hosts. Positions are those in from->hosts().
  std::optional<HostId> up_parent;  // none: this host is the root
  std::vector<HostId> up_children;  // ascending
  HostId down_root;                 // where the root of the source hosts sends the sum
  // Tree of the destination hosts. Positions are those in to->hosts().
  std::optional<HostId> down_parent;  // none: this host is the root, and hears from the root of the source hosts
  HostId up_root;
  std::vector<uint32_t> down_children;  // positions, ascending

 private:
  void PlanDirect();
  void PlanTrees(const ProgressKnobs& knobs);
};

}  // namespace pw::dataflow
