// Housekeeping: the controller's orders and questions to all hosts, as graphs of the coordination dataflow, and the coordinator's
// runtime for them. ClusterImpl owns it. Each graph has one shard on each host concerned (host_graph_cache.h);
// worker/housekeeping/housekeeping.h has the operators:
//
//   - configure:      adopts the v1.HostConfig in the run's argument. Goes to all hosts; to a joining host before any session's
//                     command
//   - health:         answers with a v1.HealthReport, once a tick
//   - metrics:        answers with a v1.MetricsReport, on request
//   - examine:        answers with a v1.Examination: its unfinished launches and its machine, when one hangs or an operator asks
//   - stacks:         answers with a v1.Stacks, the stacks of threads on which the clients in the v1.StackQuestion may wait
//   - clean-up:       frees the objects that the v1.CleanUp in the argument names; goes to the hosts that have them
//   - abort-launch:   ends a launch that has failed on another host, as the v1.AbortLaunch in the argument says
//   - forward-order:  tells other hosts, and answers with the v1.ForwardReport, which holds their answers
//                     (worker/housekeeping/order_forwarder.h)
//   - trace:          ends the host's recording as the v1.EndRecording says, and answers with the v1.EndedRecording
//   - profile:        answers with a v1.ProfilePiece of the profile that the host keeps, which the v1.ProfilePart names
//
// One graph goes in the other direction; its coordinator is the host:
//   - launch-failed:  one shard, at the controller: gets the host's v1.LaunchFailed. The controller then aborts the launch on the
//                     hosts that wait for it (abort-launch)
//
// Faults. A run whose reports go up a tree ends early when a host of its graph is lost, and tuples on their way are lost with it
// (host_graph_cache.h). So messages that must not be lost travel in the start of a run (configure, clean-up, abort-launch,
// launch-failed). A start goes to all hosts at once and reaches each present one, in its place among the commands. Answers that a
// group has collected are asked for again (metrics, health).
//
// Not graphs. Pings, which tell whether a connection or process is alive, are answered by the connection's own thread (Cluster's
// Tick). A host whose strand is busy, or whose dataflow is stuck, is not dead; and a dead host would end the graph that should
// report it. Completions and their errors are no graph either: they are results of dispatched commands, and one message already
// carries a batch of them. Completions of many hosts are joined on their way (report_groups.h) without a run, because a run might end
// with the loss of one host.
//
// Messages. A question costs a start to each host and an answer from each; an order costs only the start. Hosts that do not know
// its graph yet get it with the start.
// A cluster of more than 64 hosts saves messages. One host of each 64 sends the collected answers (host_poll.h) and passes
// on the configuration (config_broadcast.h). Orders (clean-up, abort-launch) are not answered in a cluster of any size. Traces are asked
// for and answered host by host: a report has up to 2^18 events, tens of megabytes, and all of them must reach the controller.
// Collecting 64 of them on one host would save the controller nothing but headers. The order to end a recording travels among the
// recorded commands.
//
// Invariant HK-1: nothing here waits for a lost host. Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/housekeeping/config_broadcast.h"
#include "pathways/controller/housekeeping/dataflow_links.h"
#include "pathways/controller/housekeeping/host_graph_cache.h"
#include "pathways/controller/housekeeping/host_poll.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/examination.pb.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Housekeeping {
 public:
  using MetricsByHost = std::map<HostId, ::pathways::v1::MetricsReport>;
  using ExaminationsByHost = std::map<HostId, ::pathways::v1::Examination>;
  // A host's report. `asked`: when the controller asked, by its own clock.
  using OnConfigured = ConfigBroadcast::Heard;
  using OnTrace = std::function<void(HostId, absl::Time asked, ::pathways::v1::EndedRecording)>;
  struct Health {
    ::pathways::v1::HealthReport report;
    absl::Time heard;
  };

  // All pointers must outlive this. Timers post to `strand`. `lose` is called for hosts that send invalid frames.
  Housekeeping(dispatch::Outbox* outbox, Executor* strand, Clock* clock, Timers* timers, DataflowLinks::Lose lose);

  // Sets the present hosts. New ones are sent the configuration.
  void SetHosts(std::set<HostId> hosts);
  void RemoveHost(HostId host, const absl::Status& reason);
  void OnFrame(HostId from, const ::pathways::v1::DataflowFrame& frame, Bytes payload) {
    ++frames_heard_;
    links_.Deliver(from, frame, std::move(payload));
  }

  // Sets the configuration of all present and future hosts. `configured` runs for each host that answers, until the next
  // Configure. `told` runs once, maybe inside this call. Commands that are sent to any host from then on find the configuration
  // in force.
  void Configure(::pathways::v1::HostConfig config, OnConfigured configured, absl::AnyInvocable<void() &&> told = [] {});
  const ::pathways::v1::HostConfig& config() const { return config_; }
  // Changes the accounts of the configuration, if they differ. Those who listen for answers to it go on listening. `told` as above.
  using Account = ::pathways::v1::HostConfig::Account;
  void SetAccounts(const std::vector<Account>& accounts, absl::AnyInvocable<void() &&> told);

  uint64_t frames_heard() const { return frames_heard_; }
  // Returns the controller's runtime, for graphs that are not housekeeping.
  dataflow::Runtime* runtime() { return &runtime_; }

  // Asks every host for its health. Hosts that have not answered since the last call are asked again, outside their groups.
  void WatchHealth();
  // Returns the host's last report; null if there is none yet.
  const Health* HealthOf(HostId host) const;
  const std::map<HostId, Health>& health() const { return health_; }

  // Asks every host for its metrics. `done` runs once, on the strand, maybe inside another call: when all hosts have answered, or after
  // `timeout` with the answers that have come.
  void GatherMetrics(absl::Duration timeout, absl::AnyInvocable<void(MetricsByHost) &&> done);
  // Asks every host for its examination, in the same way.
  void GatherExaminations(absl::Duration timeout, absl::AnyInvocable<void(ExaminationsByHost) &&> done);
  // Ends the recordings of these hosts, which have these names in their profiles. `done` runs when all have answered or are lost.
  void GatherTraces(const std::map<HostId, std::string>& hosts, OnTrace on_trace, absl::AnyInvocable<void() &&> done);
  // Gets a piece of a profile. `done` runs once, maybe inside the call: UNAVAILABLE if the host is lost or has no such piece.
  void ReadProfile(HostId host, const ::pathways::v1::ProfilePart& part,
                   std::function<void(absl::StatusOr<::pathways::v1::ProfilePiece>)> done);
  // Asks a host for stacks. `done` runs once, maybe inside the call; a host that is lost or does not know the question has none.
  void ReadStacks(HostId host, const ::pathways::v1::StackQuestion& question,
                  std::function<void(const ::pathways::v1::Stacks&)> done);
  // Makes the hosts free the objects in `what`. Skips hosts that are not present.
  void CleanUp(const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what);

 private:
  using Shape = HostGraphCache::Shape;
  using OnTuple = std::function<void(HostId, const dataflow::Tuple&)>;
  using OnDone = std::function<void(const absl::Status&)>;

  // Returns false, and never calls `done`, if none of the hosts is present.
  bool Start(Shape shape, const std::string& op, const std::vector<HostId>& hosts, std::string argument, OnTuple on_tuple,
             OnDone done);
  // Asks every host. `done` runs once: when all have answered, or after `timeout` with the answers that have come.
  template <class Report>
  void Gather(const std::string& op, absl::Duration timeout, absl::AnyInvocable<void(std::map<HostId, Report>) &&> done);
  void SpreadConfig(::pathways::v1::HostConfig config, absl::AnyInvocable<void() &&> told);
  ConfigBroadcast::Heard OnceConfigured() const;
  void AbortElsewhere(const ::pathways::v1::LaunchFailed& failed);
  dataflow::Operators MakeOperators();

  Executor* const strand_;
  Clock* const clock_;
  Timers* const timers_;
  const dataflow::Operators operators_;
  DataflowLinks links_;
  dataflow::Runtime runtime_;
  HostGraphCache graphs_;
  std::set<HostId> hosts_;
  HostPoll questions_;
  ConfigBroadcast configs_;
  uint64_t frames_heard_ = 0;
  ::pathways::v1::HostConfig config_;
  std::shared_ptr<const OnConfigured> configured_;
  HostPoll::RoundRef health_round_;
  std::map<HostId, Health> health_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
