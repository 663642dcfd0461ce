// Completions that come by way of others (worker.proto, Report; speakers.h says by whose).
#include "pathways/controller/cluster_impl.h"

namespace pw::controller {
namespace {

// Twice as long is what a host has to wait at most to hear that a report was seen; it loses patience later (worker/report_path.h).
constexpr absl::Duration kTellSeen = absl::Milliseconds(50);

}  // namespace

// What a host says of itself counts, whether or not it still speaks for others: it keeps nothing of that. Of a host for which another
// speaks now, or none, nothing is taken, nor called seen: that host has been told, and brings by itself what it has not heard of.
void ClusterImpl::OnJoined(HostId from, const ::pathways::v1::Joined& joined) {
  for (const auto& report : joined.reports()) {
    const HostId host(report.host());
    if (host != from && speakers_.Of(host) != from) continue;
    fabric_->ops().OnDone(host, report.done());
    fabric_->outbox().SetReportsSeen(host, report.number());
  }
  if (!telling_) TellReportsSeen();
}

// Hosts are told with the next commands for them. Those that get none are told all the same.
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
