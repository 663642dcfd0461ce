// Completions that one host reports for others (worker.proto, Report; speakers.h decides which).
#include "pathways/controller/cluster/cluster_impl.h"

namespace pw::controller {
namespace {

// A host learns after at most twice this time that its report was seen. Its own timeout is longer (worker/housekeeping/report_path.h).
constexpr absl::Duration kTellSeen = absl::Milliseconds(50);

}  // namespace

// A host's report of its own completions always counts, because the host keeps no copy of it. A report for another host is
// ignored, and not acknowledged, if the sender does not speak for that host any more. The other host has been told so, and sends
// every report that was not acknowledged itself.
void ClusterImpl::OnJoined(HostId from, const ::pathways::v1::Joined& joined) {
  for (const auto& report : joined.reports()) {
    const HostId host(report.host());
    if (host != from && speakers_.Of(host) != from) continue;
    fabric_->ops().OnDone(host, report.done());
    fabric_->outbox().SetReportsSeen(host, report.number());
  }
  if (!telling_) TellReportsSeen();
}

// Hosts learn with their next commands which of their reports were seen. After kTellSeen, hosts without new commands are told
// separately.
void ClusterImpl::TellReportsSeen() {
  telling_ = fabric_->outbox().TellReportsSeen();
  if (!telling_) return;
  environment_.timers->After(kTellSeen, &strand_, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self != nullptr && !self->stopped_) self->TellReportsSeen();
  });
}

uint64_t ClusterImpl::frames_heard() const {
  uint64_t frames = 0;
  for (const auto& [host, link] : hosts_) frames += links_.at(link).link->connection()->counters().frames_received;
  return frames;
}

}  // namespace pw::controller
