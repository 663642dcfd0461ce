// Random graphs over a few hosts, with all kinds of edges and all forms of placements. Some outlive their hosts. Deterministic in the
// generator.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/testing/random.h"
#include "pathways/dataflow/graph/graph.h"

namespace pw::dataflow {

inline PlacementRef RandomPlacement(Random& random, uint32_t hosts, uint32_t shards) {
  std::vector<HostId> host_of(shards);
  const uint32_t first = random.Below(hosts), per_host = 1 + random.Below(3), style = random.Below(3);
  for (uint32_t s = 0; s < shards; ++s) {
    const uint32_t host = style == 0 ? random.Below(hosts) : style == 1 ? (first + s / per_host) % hosts : first;
    host_of[s] = HostId(host);
  }
  auto placement = Placement::FromHosts(host_of);
  PW_CHECK(placement.ok());
  return std::make_shared<const Placement>(*std::move(placement));
}

// Edges go from lower to higher nodes; every node but the first has an input.
inline std::shared_ptr<const Graph> RandomGraph(Random& random, uint32_t hosts, uint32_t max_nodes, uint32_t max_shards,
                                                const std::string& op = "") {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  const uint32_t count = 2 + random.Below(max_nodes - 1);
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t shards = n > 0 && random.OneIn(2) ? nodes[n - 1].placement->num_shards() : 1 + random.Below(max_shards);
    PlacementRef placement = n > 0 && random.OneIn(3) && nodes[n - 1].placement->num_shards() == shards
                                 ? nodes[n - 1].placement
                                 : RandomPlacement(random, hosts, shards);
    nodes.push_back({absl::StrCat("n", n), op, "", std::move(placement)});
    for (uint32_t inputs = n == 0 ? 0 : 1 + random.Below(2); inputs > 0; --inputs) {
      const uint32_t from = random.Below(n), source_shards = nodes[from].placement->num_shards();
      std::vector<EdgeKind> kinds = {EdgeKind::kAllToAll, EdgeKind::kSparse};
      if (source_shards == shards) kinds.push_back(EdgeKind::kOneToOne);
      if (source_shards == 1) kinds.push_back(EdgeKind::kScatter);
      if (shards == 1) kinds.push_back(EdgeKind::kGather);
      const EdgeKind kind = kinds[random.Below(static_cast<uint32_t>(kinds.size()))];
      const bool single = kind != EdgeKind::kSparse && random.OneIn(2);
      edges.push_back({NodeId(from), NodeId(n), kind, random.OneIn(2), single});
    }
  }
  const HostLoss host_loss = random.OneIn(2) ? HostLoss::kFailsShards : HostLoss::kEndsRuns;
  auto graph = Graph::Create(std::move(nodes), std::move(edges), host_loss);
  PW_CHECK(graph.ok());
  return *std::move(graph);
}

// Returns a graph of orders (HostLoss::kConcernsNobody).
inline std::shared_ptr<const Graph> RandomOrders(Random& random, uint32_t hosts, uint32_t max_nodes, uint32_t max_shards,
                                                 const std::string& op = "") {
  std::vector<Node> nodes;
  for (uint32_t n = 1 + random.Below(max_nodes); n > 0; --n)
    nodes.push_back({absl::StrCat("n", n), op, "", RandomPlacement(random, hosts, 1 + random.Below(max_shards))});
  auto graph = Graph::Create(std::move(nodes), {}, HostLoss::kConcernsNobody);
  PW_CHECK(graph.ok());
  return *std::move(graph);
}

}  // namespace pw::dataflow
