// PlanRoute: makes the dataflow graph of a Route node (proto/pathways/v1/route.proto): `route-send` with a shard on each host that sends rows, a
// sparse edge, and `route-receive` with a shard on each host that gets some.
//
// If several devices hold the same source rows, the first of them sends them. If several hold the same destination, each of their hosts gets
// the rows.
//
// The graph outlives its hosts: if a host is lost, those fail that wait for its rows.
//
// Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph/graph.h"
#include "pathways/program/program.h"
#include "pathways/resource/topology.h"

namespace pw::dispatch {

struct RoutePlan {
  std::shared_ptr<const dataflow::Graph> graph;
  struct Host {
    HostId host;
    bool sends = false;
    std::vector<int> outputs;  // positions: those of which it makes shards
  };
  std::vector<Host> hosts;  // of the graph, ascending
};

// `name`: the node's, for messages. REQUIRES: the node is a Route that program/route.h accepts, and the topology has the devices.
absl::StatusOr<RoutePlan> PlanRoute(const program::Node& node, const std::string& name, const resource::Topology& topology);

}  // namespace pw::dispatch
