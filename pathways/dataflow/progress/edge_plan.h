// EdgePlan: one host's part in an edge: its shards at both ends, and the routes of the reports that close the edge.
//
// When all shards of the source node on a host are done, the host reports how many messages they sent to each destination shard.
// Reports take one of two routes. The kind and size of the edge alone decide which, so all hosts choose the same:
//   - direct: each source host reports to each destination host concerned. For one-to-one edges, and for edges with at most
//     `direct_pairs` pairs of hosts.
//   - tree: source hosts add up their reports along a tree. Its root sends the sum to the first destination host, from which
//     every destination host gets its part along a second tree. With S source and D destination hosts, at most S + D - 1 reports
//     are sent. A host receives at most `fan_in` per level, and the hops grow with the logarithm of the hosts.
//
// Two kinds of edges differ:
//   - A single edge (Edge::single) has no reports: its tuples close it.
//   - In a graph that outlives its hosts (HostLoss::kFailsShards) all reports are direct. In a tree, the counts of a lost host
//     could not be taken out of a sum, and reports on their way through that host would be lost too.
//
// Invariants:
//   EP-1  the reports of an edge are O(hosts), for any number of shards. All-to-all and sparse edges of graphs that outlive their
//         hosts have more: at most one per pair of hosts
//   EP-2  memory is O(shards of the edge on this host + direct_pairs + fan_in x levels). In graphs that outlive their hosts,
//         O(hosts of the edge) is added
// Immutable, pure; made once per graph and host, shared by all runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pathways/dataflow/graph/graph.h"
#include "pathways/dataflow/progress/report_tree.h"

namespace pw::dataflow {

struct ProgressKnobs {
  uint32_t fan_in = 64;        // of the trees; at least 2
  uint32_t direct_pairs = 64;  // edges with at most this number of pairs of hosts use direct reports
};

// Knobs for hosts that can reach only the coordinator: all reports are direct.
inline ProgressKnobs StarKnobs() { return {.direct_pairs = UINT32_MAX}; }

// The rules by which an edge carries tuples and closes.
struct EdgeRules {
  EdgeKind kind = EdgeKind::kOneToOne;
  bool single = false;          // Edge::single
  bool outlives_hosts = false;  // HostLoss::kFailsShards
};

struct EdgePlan {
  // `from` and `to` outlive the plan.
  EdgePlan(const EdgeRules& rules, const Placement& from, const Placement& to, HostId self, const ProgressKnobs& knobs);

  // Returns whether this host has no part in the edge.
  bool idle() const { return sources.empty() && destinations.empty(); }
  // Returns whether a source shard may send to a destination shard.
  bool Allows(uint32_t source, uint32_t destination) const;
  // Returns the number of source shards that may send to a destination shard.
  uint32_t SourcesPerDestination() const { return kind == EdgeKind::kOneToOne ? 1 : from->num_shards(); }
  // Returns whether tuples or reports of the edge may travel between this host and `other`.
  bool TalksTo(HostId other) const;
  // The same for reports alone.
  bool ReportsTo(HostId other) const;
  // Returns whether a failed source shard poisons all destination shards. On one-to-one edges it poisons only its own.
  bool poisons_all() const { return kind != EdgeKind::kOneToOne; }

  EdgeKind kind;
  bool single;
  bool outlives_hosts;
  const Placement* from;
  const Placement* to;
  HostId self;
  std::vector<uint32_t> sources;       // this host's shards of the source node, ascending
  std::vector<uint32_t> destinations;  // and of the destination node
  bool direct = false;

  // If direct: the hosts that this host reports to, and those that report to it. Ascending; both may contain this host. Empty if single.
  std::vector<HostId> report_to;
  std::vector<HostId> reporters;

  // If neither direct nor single: the tree of the source hosts.
  std::optional<HostId> up_parent;  // none: this host is the root
  std::vector<HostId> up_children;  // ascending
  HostId down_root;                 // root of the destination hosts, to which the root of the source hosts sends the sum
  // And the tree of the destination hosts.
  std::optional<HostId> down_parent;  // none: this host is the root, and receives the sum from up_root
  HostId up_root;
  std::vector<uint32_t> down_children;  // positions in to->hosts(), ascending

 private:
  bool ExchangesTuplesWith(HostId other) const;
  void PlanDirect();
  void PlanTrees(const ProgressKnobs& knobs);
};

}  // namespace pw::dataflow
