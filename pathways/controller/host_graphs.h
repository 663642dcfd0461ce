// HostGraphs: graphs of the coordination dataflow with one shard on each of some hosts, made when they are first needed:
//
//   order     `op` on each host
//   answers   `op` on each host ──one-to-one──► one result for each of them, here
//   gathered  `op` on each host ──gather──► `combine` on the first of them ──one-to-one──► one result, here
//
// Of the last, what comes here does not grow with the hosts: neither the answer, nor the reports of the run, which go up the same tree.
// Beyond 64 hosts the reports of an order do too (progress/edge_plan.h).
//
// A graph costs an install to each of its hosts; running it again costs a start to each. Those that are not used any more make room
// for others, and a host that is lost takes its graphs with it; their runs end by themselves.
// Strand-confined.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/dataflow/runtime.h"

namespace pw::controller {

class HostGraphs {
 public:
  static constexpr size_t kKept = 256;
  enum class Shape { kOrder, kAnswers, kGathered };

  // `runtime`, the controller's, outlives this.
  explicit HostGraphs(dataflow::Runtime* runtime) : runtime_(runtime) {}

  // Starts a run of `op` on these hosts, which are there: at least one. Ascending positions in `hosts` are the shards. A host that
  // fails is missing in what comes, which is all: on_closed is set here. None: there is no such graph, which is a mistake of ours,
  // and in the log; then nothing of `options` is called.
  std::optional<dataflow::RunId> Start(Shape shape, const std::string& op, const dataflow::HostSet& hosts,
                                       dataflow::RunOptions options);
  void HostLost(HostId host);

 private:
  absl::StatusOr<dataflow::GraphId> Over(Shape shape, const std::string& op, const dataflow::HostSet& hosts);
  struct Known {
    Shape shape;
    std::string op;
    dataflow::HostSet hosts;
    dataflow::GraphId graph;
  };
  dataflow::Runtime* const runtime_;
  std::list<Known> known_;  // the last used first
};

}  // namespace pw::controller
