// HostGraphs: graphs of the coordination dataflow with one shard on each of some hosts, made when they are first needed:
//
//   `op` on each host ──one-to-one──► one result for each of them, here
//
// A graph costs an install to each of its hosts; running it again costs a start to each. Those that are not used any more make room
// for others, and a host that is lost takes its graphs with it; their runs end by themselves.
// Strand-confined.
#pragma once

#include <list>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "pathways/dataflow/runtime.h"

namespace pw::controller {

class HostGraphs {
 public:
  static constexpr size_t kKept = 64;

  // `runtime`, the controller's, outlives this.
  explicit HostGraphs(dataflow::Runtime* runtime) : runtime_(runtime) {}

  // REQUIRES: not empty; ascending positions in `hosts` are the shards.
  absl::StatusOr<dataflow::GraphId> Over(const std::string& op, const dataflow::HostSet& hosts);
  void HostLost(HostId host);

 private:
  struct Known {
    std::string op;
    dataflow::HostSet hosts;
    dataflow::GraphId graph;
  };
  dataflow::Runtime* const runtime_;
  std::list<Known> known_;  // the last used first
};

}  // namespace pw::controller
