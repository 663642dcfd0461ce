#include "pathways/worker/housekeeping/report_path.h"

#include <algorithm>
#include <utility>

namespace pw::worker {

namespace v1 = pathways::v1;

ReportPath::ReportPath(WorkerContext* context, FrameChannel* frames, Timers* timers)
    : context_(context), frames_(frames), timers_(timers) {
  frames_->SetReportReceiver(this);
}

ReportPath::~ReportPath() {
  context_->outbox().SetOtherWay(nullptr);
  frames_->SetReportReceiver(nullptr);
}

void ReportPath::SetPeers(const v1::Peers& peers) {
  std::optional<HostId> through;
  size_t group = 0;
  for (const v1::Peers::Peer& peer : peers.peers()) {
    if (timers_ == nullptr || !peer.has_reports_through()) continue;
    if (HostId(peer.host()) == context_->self()) through = HostId(peer.reports_through());
    if (HostId(peer.reports_through()) == context_->self()) ++group;
  }
  joined_.SetGroup(group);
  if (joined_.complete()) SendJoined();  // the missing hosts have left
  if (through == through_) return;
  context_->outbox().SetOtherWay(nullptr);
  BringStraight();
  unacked_.Trust();
  through_ = through;
  if (through_.has_value()) context_->outbox().SetOtherWay([this](v1::Done* done) { return Take(done); });
}

// ---- as a member

bool ReportPath::Take(v1::Done* done) {
  v1::Report report;
  if (*through_ == context_->self()) {
    *report.mutable_done() = std::move(*done);
    Join(context_->self(), std::move(report));
    return true;
  }
  if (unacked_.in_doubt()) return false;
  report.set_number(unacked_.Add(*done, context_->clock()->Now()));
  *report.mutable_done() = std::move(*done);
  frames_->SendReport(*through_, std::move(report));
  if (!awaiting_) AwaitSeen();
  return true;
}

void ReportPath::AwaitSeen() {
  awaiting_ = true;
  timers_->After(unacked_.oldest() + kPatience - context_->clock()->Now(), context_->strand(), [this, alive = context_->alive()] {
    if (alive.expired()) return;
    awaiting_ = false;
    if (unacked_.empty()) return;
    if (context_->clock()->Now() < unacked_.oldest() + kPatience) return AwaitSeen();
    BringStraight();
  });
}

void ReportPath::OnReportsLost(HostId to) {
  if (through_ == to) BringStraight();
}

void ReportPath::BringStraight() {
  for (v1::Done& done : unacked_.Take()) *context_->outbox().Add()->mutable_done() = std::move(done);
}

// ---- as the speaker

void ReportPath::OnReport(HostId from, v1::Report report) { Join(from, std::move(report)); }

void ReportPath::Join(HostId from, v1::Report report) {
  joined_.Add(from, std::move(report), context_->clock()->Now());
  if (joined_.complete()) return SendJoined();
  if (!holding_) HoldOn();
}

// REQUIRES: there are joined reports.
absl::Time ReportPath::HeldUntil() const { return std::min(joined_.latest() + kHold, joined_.oldest() + kLongestHold); }

// REQUIRES: there are joined reports and timers; without timers, any report completes the frame.
void ReportPath::HoldOn() {
  holding_ = true;
  timers_->After(HeldUntil() - context_->clock()->Now(), context_->strand(), [this, alive = context_->alive()] {
    if (alive.expired()) return;
    holding_ = false;
    if (joined_.empty()) return;
    if (context_->clock()->Now() < HeldUntil()) return HoldOn();
    SendJoined();
  });
}

void ReportPath::SendJoined() { *context_->outbox().Add()->mutable_joined() = joined_.Take(); }

}  // namespace pw::worker
