// HostGraphCache: graphs of the coordination dataflow with one shard on each host of a set, created on first use. Housekeeping, HostPoll
// and ConfigBroadcast run their operators through it.
//
//   - order:     `op` on each host; no answer comes back, not even whether it was carried out
//   - answers:   `op` on each host ──one-to-one──► one result for each of them, at the controller
//   - gathered:  `op` on each host ──gather──► `combine` on the first of them ──one-to-one──► one result, at the controller
//
// Each host gives one answer, or fails: the edges are single. If a host of an `answers` graph is lost, only its answer is
// missing. A `gathered` graph ends with its first lost host, because its reports go up a tree (progress/edge_plan.h); the answers
// are then asked for again (host_poll.h).
//
// In a `gathered` graph, the number of messages to the controller does not grow with the hosts: answers, and the reports of the
// run, go up the same tree. Orders bring no message back.
//
// Installing a graph costs one message to each of its hosts; running it again costs one start to each. The least recently used graphs make
// room for new ones. When a host is lost, its graphs are dropped; their runs end by themselves or go on.
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

class HostGraphCache {
 public:
  static constexpr size_t kKept = 256;
  enum class Shape { kOrder, kAnswers, kGathered };

  // `runtime` is the controller's, and must outlive this.
  explicit HostGraphCache(dataflow::Runtime* runtime) : runtime_(runtime) {}

  // Starts a run of `op` on these hosts: at least one, all present. Shard i is on the i-th host of `hosts`, ascending. If a host
  // fails, its answer is missing, and nothing else happens: this sets `options.on_closed`. Returns no run if the graph cannot be
  // built, which is a bug and is logged; then no callback of `options` runs.
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
  std::list<Known> known_;  // most recently used first
};

}  // namespace pw::controller
