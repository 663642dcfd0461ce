// Housekeeping: graphs of the coordination dataflow by which the controller keeps the cluster in order, and their coordinator's
// runtime.
//
//   memory:  one shard on each host ──one-to-one──► one result shard per host, here. A host that fails, or is lost, is missing
//   from
//            what is gathered; the others are not.
//
// The graph over all hosts is installed again when membership has changed and it is needed. Messages per gathering: a start to
// each host, and its answer with its reports in one frame. Strand-confined.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/base/timer_queue.h"
#include "pathways/controller/dataflow_links.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Housekeeping {
 public:
  using MemoryByHost = std::map<HostId, ::pathways::v1::MemoryReport>;

  // All outlive this. Timers post to `strand`. `lose` is for hosts whose frames make no sense.
  Housekeeping(dispatch::Outbox* outbox, Executor* strand, Clock* clock, Timers* timers, DataflowLinks::Lose lose);

  // The hosts that there are.
  void SetHosts(std::set<HostId> hosts);
  void RemoveHost(HostId host, const absl::Status& reason);
  void OnFrame(HostId from, const ::pathways::v1::DataflowFrame& frame, Bytes payload) {
    links_.Deliver(from, frame, std::move(payload));
  }

  // Asks every host what its devices hold. `done` comes once, on the strand, maybe inside another call: when all have answered,
  // or with what there is when the time is up.
  void GatherMemory(absl::Duration timeout, absl::AnyInvocable<void(MemoryByHost) &&> done);

 private:
  struct Gathering;

  void Ask(const std::shared_ptr<Gathering>& gathering);
  void Asked(const std::shared_ptr<Gathering>& gathering, const absl::Status& status);
  absl::Status InstallIfChanged();

  Executor* const strand_;
  Timers* const timers_;
  DataflowLinks links_;
  dataflow::Runtime runtime_;
  std::set<HostId> hosts_;
  std::optional<dataflow::GraphId> memory_graph_;  // over installed_hosts_
  dataflow::HostSet installed_hosts_;
  bool changed_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
