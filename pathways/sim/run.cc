#include "pathways/sim/run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/sim/cluster.h"
#include "pathways/sim/workload.h"
#include "pathways/sim/world.h"

namespace pw::sim {
namespace {

// Time limit for freeing all arrays after the last session has ended.
constexpr absl::Duration kFreedWithin = absl::Seconds(1);

// A client's goodbye may be lost with its connection. Then the controller waits for the client in vain. Hosts wait for the next controller
// if one has died, which they notice when no process has listened at its address for a while. What goes to a host that is silent is given up
// with it.
absl::Duration FreedWithin(const Scenario& scenario) {
  const absl::Duration of_clients = CutsClients(scenario) ? kClientGrace + absl::Seconds(2) : absl::ZeroDuration();
  const absl::Duration of_hosts =
      KillsControllers(scenario) ? kControllerGrace + Referee::kNoticeDeath * 5 : absl::ZeroDuration();
  return kFreedWithin + std::max({of_clients, of_hosts, SilencesHosts(scenario) ? scenario.heartbeat * 1.25 : absl::ZeroDuration()});
}

class Run {
 public:
  Run(const Scenario& scenario, uint64_t seed) : scenario_(scenario), world_(seed), cluster_(scenario_, &world_) {
    report_.scenario = scenario.name;
    report_.seed = seed;
  }

  ~Run() { world_.Drop(); }

  Report Go() {
    if (!cluster_.Form()) {
      cluster_.referee().Violation("the cluster did not form");
    } else {
      StartWorkloads();
      ScheduleFaults();
      const absl::Time limit = world_.now() + scenario_.limit;
      const absl::Time begin = world_.now();
      if (!world_.RunUntil(limit, [this] { return finished_ == workloads_.size(); })) Unfinished();
      report_.work_seconds = absl::ToDoubleSeconds(world_.now() - begin);
      world_.RunUntil(world_.now() + FreedWithin(scenario_), [] { return false; });
      CheckEnd();
    }
    Fill();
    return std::move(report_);
  }

 private:
  void StartWorkloads() {
    for (const WorkloadSpec& spec : scenario_.workloads) {
      for (int c = 0; c < spec.clients; ++c) {
        workloads_.push_back(MakeWorkload({&cluster_, static_cast<int>(workloads_.size())}, spec));
      }
    }
    for (auto& workload : workloads_) workload->Start([this] { ++finished_; });
  }

  void ScheduleFaults() {
    for (const Fault& fault : scenario_.faults) {
      world_.After(world_.Between(fault.earliest, fault.latest), [this, fault] { Strike(fault); });
    }
  }
  void Strike(const Fault& fault) {
    const int host = fault.host >= 0 ? fault.host : static_cast<int>(world_.Below(static_cast<uint64_t>(cluster_.hosts())));
    if (fault.kind == "crash") return cluster_.CrashHost(host, false);
    if (fault.kind == "power") return cluster_.CrashHost(host, true);
    if (fault.kind == "stop") return cluster_.StopHost(host, fault.duration);
    if (fault.kind == "slow") return cluster_.SlowHost(host, fault.factor, fault.duration);
    if (fault.kind == "part") return cluster_.PartHost(host, fault.duration);
    if (fault.kind == "unlink") return cluster_.UnlinkHost(host, fault.duration);
    if (fault.kind == "sever") return cluster_.SeverHost(host, fault.duration);
    if (fault.kind == "delay") return cluster_.DelayHost(host, fault.by, false, fault.duration);
    if (fault.kind == "reorder") return cluster_.DelayHost(host, fault.by, true, fault.duration);
    if (fault.kind == "start") return cluster_.StartHost(host);
    if (fault.kind == "join") return static_cast<void>(cluster_.AddHost());
    if (fault.kind == "controller") return cluster_.CrashController(fault.duration);
    if (fault.kind == "handover") return cluster_.StopController(fault.duration);
    Workload& workload = *workloads_[world_.Below(workloads_.size())];
    if (fault.kind == "cut") return workload.CutOff(fault.duration);
    workload.Kill();  // client
  }

  void Unfinished() {
    for (auto& workload : workloads_) {
      if (workload->finished()) continue;
      cluster_.referee().Violation(absl::StrCat(
          workload->name(), " has not finished: ", workload->requests() - workload->answers(), " requests wait for an answer"));
      workload->Kill();
    }
  }

  void CheckEnd() {
    Referee& referee = cluster_.referee();
    referee.CheckHosts();
    referee.CheckCompletions();
    referee.CheckLaunches(cluster_.Launches());
    for (auto& workload : workloads_) {
      if (workload->strays() > 0)
        referee.Violation(absl::StrCat(workload->name(), " got ", workload->strays(), " answers to nothing"));
    }
    if (cluster_.arrays() != 0) {
      referee.Violation(absl::StrCat("hosts hold ", cluster_.arrays(), " arrays ", absl::FormatDuration(FreedWithin(scenario_)),
                                     " after the last session has ended"));
    }
    if (cluster_.charged_bytes() != 0) {
      referee.Violation(absl::StrCat("hosts charge sessions for ", cluster_.charged_bytes(), " bytes after the last one has ended"));
    }
    if (cluster_.had_names() != 0)
      referee.Violation(absl::StrCat("hosts keep ", cluster_.had_names(), " names of commands after the last session has ended"));
  }

  void Fill() {
    report_.hash = world_.hash();
    report_.simulated_seconds = absl::ToDoubleSeconds(world_.elapsed());
    report_.events = world_.events();
    report_.frames = cluster_.network().totals().frames;
    report_.bytes = cluster_.network().totals().bytes;
    report_.bytes_between_islands = cluster_.network().totals().bytes_between_islands;
    report_.repeated = cluster_.network().repeated();
    report_.after_settled = cluster_.network().after_settled();
    for (auto& workload : workloads_) {
      report_.requests += workload->requests();
      report_.reads += workload->reads();
      report_.errors += workload->errors();
    }
    report_.violations = cluster_.referee().violations();
  }

  const Scenario scenario_;
  World world_;
  SimCluster cluster_;
  std::vector<std::unique_ptr<Workload>> workloads_;
  size_t finished_ = 0;
  Report report_;
};

}  // namespace

Report RunScenario(const Scenario& scenario, uint64_t seed) { return Run(scenario, seed).Go(); }

std::string ToJson(const Report& report) {
  JsonWriter json;
  json.BeginObject();
  json.Key("scenario").String(report.scenario);
  json.Key("seed").Int(static_cast<int64_t>(report.seed));
  json.Key("hash").String(absl::StrCat(absl::Hex(report.hash, absl::kZeroPad16)));
  json.Key("simulated_seconds").Number(report.simulated_seconds);
  json.Key("work_seconds").Number(report.work_seconds);
  json.Key("events").Int(static_cast<int64_t>(report.events));
  json.Key("frames").Int(static_cast<int64_t>(report.frames));
  json.Key("bytes").Int(static_cast<int64_t>(report.bytes));
  json.Key("bytes_between_islands").Int(static_cast<int64_t>(report.bytes_between_islands));
  json.Key("repeated").Int(static_cast<int64_t>(report.repeated));
  json.Key("after_settled").Int(static_cast<int64_t>(report.after_settled));
  json.Key("requests").Int(static_cast<int64_t>(report.requests));
  json.Key("reads").Int(static_cast<int64_t>(report.reads));
  json.Key("errors").Int(static_cast<int64_t>(report.errors));
  json.Key("violations").BeginArray();
  for (const std::string& violation : report.violations) json.String(violation);
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace pw::sim
