// ReportPath: the way of completions to the controller through one host of a group: of this host's, and of others' through this one.
//
// Why. The controller names for each host of a large cluster one through which it reports (v1.Peers, controller/speakers.h); what that saves
// is said in worker.proto (Report), and which completions those are. A host without one, as all are in a small cluster, notices nothing.
//
// A member gives what the outbox offers at the end of a turn, one report, to the host that speaks for it, over the connection that carries
// arrays, and keeps it (unseen_reports.h). The one that speaks is a member too. It sends what it has as soon as all of the group
// have reported, which is the case of programs over all of them; else when none has come for kHold: a program over some of them does not wait
// for the others, and hosts that come one after another, as they do where they share processors, are waited for, up to kLongestHold.
//
// Faults. The controller may be told twice, and is told at least once. When the connection to the one that speaks breaks, when another is
// named, or when the controller has not seen a report for kPatience (the one that speaks hangs, or is cut off, or does not know yet
// that it is lost), the member brings all it keeps straight, and goes on so while the way is in doubt. The one that speaks owes
// nobody anything: it may go at any moment, with all it has heard.
//
// Invariants:
//   RP-1  every completion that the outbox has offered reaches the controller, if this host's own connection to it lasts
//   RP-2  what others have reported leaves within kLongestHold of a strand that is not busy
//   RP-3  no completion is later than kPatience, and a turn of the strand, for having taken this way
// Without timers this host reports straight, and sends on what it hears at once.
// Lives on the worker's strand.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "pathways/base/timer_queue.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/core.h"
#include "pathways/worker/joined_reports.h"
#include "pathways/worker/peers.h"
#include "pathways/worker/unseen_reports.h"

namespace pw::worker {

class ReportPath : private Peers::ReportReceiver {
 public:
  static constexpr absl::Duration kHold = absl::Microseconds(200);
  static constexpr absl::Duration kLongestHold = absl::Milliseconds(2);
  // Longer than the controller takes to say what it has seen if it has nothing else to say (ClusterImpl).
  static constexpr absl::Duration kPatience = absl::Milliseconds(200);

  // All outlive this.
  ReportPath(Core* core, Peers* peers, Timers* timers);
  ~ReportPath() override;

  // Through whom, and for whom. After `peers` knows them.
  void SetPeers(const pathways::v1::Peers& peers);
  // The controller's word (v1.ToWorker.reports_seen).
  void Seen(uint64_t number) { unseen_.Seen(number); }

 private:
  void OnReport(HostId from, pathways::v1::Report report) override;
  void OnReportsLost(HostId to) override;

  bool Take(pathways::v1::Done* done);
  void Join(HostId from, pathways::v1::Report report);
  void SendJoined();
  absl::Time HeldUntil() const;
  void HoldOn();
  void AwaitSeen();
  void BringStraight();

  Core* const core_;
  Peers* const peers_;
  Timers* const timers_;
  std::optional<HostId> through_;
  UnseenReports unseen_;
  JoinedReports joined_;
  bool holding_ = false;   // a timer runs for what is joined
  bool awaiting_ = false;  // a timer runs for what is not seen
};

}  // namespace pw::worker
