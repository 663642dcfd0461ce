// Housekeeping: graphs of the coordination dataflow by which the controller keeps the cluster in order, and their coordinator's
// runtime. Each has one shard on each host concerned (host_graphs.h), whose operator is (worker/housekeeping.h):
//
//   configure      goes by the v1.HostConfig in the run's argument. To all hosts, and to those that join before anything else
//   health         answers with a v1.HealthReport, once a tick
//   metrics        answers with a v1.MetricsReport, when somebody asks
//   clean-up       frees what the v1.CleanUp in the argument names; to the hosts that have it
//   abort-launch   ends the launch of which the v1.AbortLaunch in the argument says that it failed elsewhere
//   pass-on        tells other hosts, each with its answer, and answers with the v1.PassedOn (worker/pass_on.h)
//   trace          ends its recording, and answers with the v1.TraceReport
// and one graph in the other direction, whose coordinator is the host:
//   launch-failed  one shard, here: the host's v1.LaunchFailed. The hosts that wait for the launch hear of it by abort-launch
//
// Under faults. A run ends early when a host of its graph is lost, and tuples that were on their way go with it. So what must not be
// lost travels in the start of a run, which goes to all its hosts at once and reaches each that is there, in its place among the
// commands (configure, clean-up, abort-launch, launch-failed); what is gathered is asked for again (metrics, health), or of each host
// by a run of its own (trace).
//
// What is no graph. Whether a connection, or a process, is alive: pings are answered by the connection's own thread (Cluster's Tick),
// since a host whose strand is busy, or whose dataflow is stuck, is not dead, and one that is dead ends the graphs that would tell.
// Completions with their errors: they are results of what was dispatched, and a batch of them is one message as it is; those of many
// hosts are joined on their way (speakers.h), but need no run, and none that ends when one of its hosts is lost.
//
// Messages. A run: a start to each host, an answer from each. Hosts that have not had this graph before are told it with the start. In a
// cluster of more than 64 hosts what is gathered comes from one host of each 64 (host_questions.h), the ends of orders (clean-up,
// abort-launch) come up a tree of hosts, and a configuration goes down one (config_spread.h). Traces are asked for and answered host by
// host: a report is up to 2^18 events, tens of megabytes, and all of them have to come here; one host would have to hold those of 64, to
// spare this process nothing but headers. And the word that ends a recording goes the way of the commands that are recorded.
// Invariant HK-1: nothing here waits for a host that is lost. Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/base/timer_queue.h"
#include "pathways/controller/config_spread.h"
#include "pathways/controller/dataflow_links.h"
#include "pathways/controller/host_graphs.h"
#include "pathways/controller/host_questions.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Housekeeping {
 public:
  using MetricsByHost = std::map<HostId, ::pathways::v1::MetricsReport>;
  // What a host said, with its name; `asked` is the moment here.
  using OnConfigured = ConfigSpread::Heard;
  using OnTrace = std::function<void(HostId, absl::Time asked, ::pathways::v1::TraceReport)>;
  struct Health {
    ::pathways::v1::HealthReport report;
    absl::Time heard;
  };

  // All outlive this. Timers post to `strand`. `lose` is for hosts whose frames make no sense.
  Housekeeping(dispatch::Outbox* outbox, Executor* strand, Clock* clock, Timers* timers, DataflowLinks::Lose lose);

  // The hosts that there are. Those that were not are told the configuration.
  void SetHosts(std::set<HostId> hosts);
  void RemoveHost(HostId host, const absl::Status& reason);
  void OnFrame(HostId from, const ::pathways::v1::DataflowFrame& frame, Bytes payload) {
    ++frames_heard_;
    links_.Deliver(from, frame, std::move(payload));
  }

  // What hosts go by from now on, also those that join later. `configured` comes for each that answers, until the next Configure.
  // `told` comes once, maybe inside this call: what is sent to any host from then on finds the configuration in force.
  void Configure(::pathways::v1::HostConfig config, OnConfigured configured, absl::AnyInvocable<void() &&> told = [] {});
  const ::pathways::v1::HostConfig& config() const { return config_; }

  uint64_t frames_heard() const { return frames_heard_; }

  // Asks every host how it is; who has not answered since the last time is asked anew.
  void WatchHealth();
  // What it said last; null: nothing yet.
  const Health* HealthOf(HostId host) const;

  // Asks every host. `done` comes once, on the strand, maybe inside another call: when all have answered, or with what there is when
  // the time is up.
  void GatherMetrics(absl::Duration timeout, absl::AnyInvocable<void(MetricsByHost) &&> done);
  // Ends the recordings of these hosts. `done` comes when all have answered or are lost.
  void GatherTraces(const std::vector<HostId>& hosts, OnTrace on_trace, absl::AnyInvocable<void() &&> done);
  // Those of the hosts that are there.
  void CleanUp(const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what);

 private:
  using Shape = HostGraphs::Shape;
  using OnTuple = std::function<void(HostId, const dataflow::Tuple&)>;
  using OnDone = std::function<void(const absl::Status&)>;

  // False: there is no such host, and `done` never comes.
  bool Start(Shape shape, const std::string& op, const std::vector<HostId>& hosts, std::string argument, OnTuple on_tuple,
             OnDone done);
  ConfigSpread::Heard OnceConfigured() const;
  void AbortElsewhere(const ::pathways::v1::LaunchFailed& failed);
  dataflow::Operators MakeOperators();

  Executor* const strand_;
  Clock* const clock_;
  Timers* const timers_;
  const dataflow::Operators operators_;
  DataflowLinks links_;
  dataflow::Runtime runtime_;
  HostGraphs graphs_;
  std::set<HostId> hosts_;
  HostQuestions questions_;
  ConfigSpread configs_;
  uint64_t frames_heard_ = 0;
  ::pathways::v1::HostConfig config_;
  std::shared_ptr<const OnConfigured> configured_;
  HostQuestions::RoundRef health_round_;
  std::map<HostId, Health> health_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
