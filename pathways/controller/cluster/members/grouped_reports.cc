#include "pathways/controller/cluster/members/grouped_reports.h"

namespace pw::controller {
namespace {

// A host learns after at most twice this time that its report was seen. Its own timeout is longer (worker/housekeeping/report_path.h).
constexpr absl::Duration kTellSeen = absl::Milliseconds(50);

}  // namespace

// A host's report of its own completions always counts, because the host keeps no copy of it. A report for another host is
// ignored, and not acknowledged, if the sender does not speak for that host any more. The other host has been told so, and sends
// every report that was not acknowledged itself.
void GroupedReports::OnJoined(HostId from, const ::pathways::v1::Joined& joined) {
  for (const auto& report : joined.reports()) {
    const HostId host(report.host());
    if (host != from && report_groups_.Of(host) != from) continue;
    fabric_->ops().OnDone(host, report.done());
    fabric_->outbox().SetReportsSeen(host, report.number());
  }
  if (!telling_) TellReportsSeen();
}

// Hosts learn with their next commands which of their reports were seen. After kTellSeen, hosts without new commands are told
// separately.
void GroupedReports::TellReportsSeen() {
  telling_ = fabric_->outbox().TellReportsSeen();
  if (!telling_) return;
  timers_->After(kTellSeen, strand_, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) TellReportsSeen();
  });
}

}  // namespace pw::controller
