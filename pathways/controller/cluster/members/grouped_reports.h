// GroupedReports: takes the completions that one host reports for its group (worker.proto, Report), and tells hosts which of their reports
// have arrived. Strand-confined.
#pragma once

#include <memory>
#include <set>

#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/hosts/report_groups.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class GroupedReports {
 public:
  // The pointers must outlive this.
  GroupedReports(Fabric* fabric, Executor* strand, Timers* timers) : fabric_(fabric), strand_(strand), timers_(timers) {}

  void SetHosts(const std::set<HostId>& hosts) { report_groups_.SetHosts(hosts); }
  const ReportGroups& report_groups() const { return report_groups_; }
  // Takes reports that came from this host: its own, and those of hosts that it speaks for.
  void OnJoined(HostId from, const ::pathways::v1::Joined& joined);
  // Stops telling hosts.
  void Stop() { alive_ = nullptr; }

 private:
  void TellReportsSeen();

  Fabric* const fabric_;
  Executor* const strand_;
  Timers* const timers_;
  ReportGroups report_groups_;
  bool telling_ = false;  // a timer runs that tells hosts which of their reports have arrived
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
