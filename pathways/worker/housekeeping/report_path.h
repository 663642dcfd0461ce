// ReportPath: sends this host's completions (v1.Done) to the controller through another host of its group, and forwards those of other
// hosts. The controller then receives one frame for each group, instead of one for each host.
//
// Roles. In a large cluster the controller divides the hosts into groups and names a speaker in each. All members of a group
// report through its speaker (v1.Peers, controller/hosts/report_groups.h). The completions that take this path are specified in
// worker.proto (Report). A host without a speaker, as in a small cluster, reports directly.
//
// At the end of a turn of the strand, a member sends the completions that the outbox offers to its speaker, as one report. It
// uses the connection that carries arrays, and keeps a copy (unacked_reports.h). The speaker is a member too. It sends the joined
// reports at once when the whole group has reported, as after a program over all of it. Otherwise it sends when no report has
// come for kHold, so that a program over some of the hosts does not wait for the others. It waits at most kLongestHold for hosts
// that report one after another, as they do if they share processors.
//
// Faults. The controller receives each completion at least once, perhaps twice. In three cases a member sends all reports that it
// keeps directly to the controller:
//   - The connection to its speaker breaks.
//   - The controller names another speaker.
//   - The controller has not acknowledged a report for kPatience: the speaker hangs, is cut off, or does not know yet that it is
//     lost.
// The member goes on reporting directly until the controller acknowledges those reports or names another speaker. A speaker has
// no obligation: it may disappear at any moment with all reports it holds.
//
// Invariants:
//   RE-1  every completion that the outbox offered reaches the controller, if this host's own connection to it lasts
//   RE-2  forwarded reports leave within kLongestHold if the strand is not busy
//   RE-3  this path delays a completion by at most kPatience and one turn of the strand
// Without timers this host reports directly, and forwards reports at once.
// Lives on the worker's strand.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/housekeeping/report_batch.h"
#include "pathways/worker/housekeeping/unacked_reports.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/transfer/frame_channel.h"

namespace pw::worker {

class ReportPath : private FrameChannel::ReportReceiver {
 public:
  static constexpr absl::Duration kHold = absl::Microseconds(200);
  static constexpr absl::Duration kLongestHold = absl::Milliseconds(2);
  // Longer than the controller's delay for a bare acknowledgement of reports (GroupedReports).
  static constexpr absl::Duration kPatience = absl::Milliseconds(200);

  // All outlive this.
  ReportPath(WorkerContext* context, FrameChannel* frames, Timers* timers);
  ~ReportPath() override;

  // Sets this host's speaker and the members for which it speaks. Called after PeerConnections knows them.
  void SetPeers(const pathways::v1::Peers& peers);
  // The controller has seen all reports up to this number (v1.ToWorker.reports_seen).
  void Seen(uint64_t number) { unacked_.Seen(number); }

 private:
  void OnReport(HostId from, pathways::v1::Report report) override;
  void OnReportsLost(HostId to) override;

  // Takes completions that the outbox offers. Returns false if the outbox has to send them directly.
  bool Take(pathways::v1::Done* done);
  void Join(HostId from, pathways::v1::Report report);
  void SendJoined();
  absl::Time HeldUntil() const;
  void HoldOn();
  void AwaitSeen();
  // Sends all kept reports directly.
  void BringStraight();

  WorkerContext* const context_;
  FrameChannel* const frames_;
  Timers* const timers_;
  std::optional<HostId> through_;  // the speaker; none: this host reports directly
  UnackedReports unacked_;
  ReportBatch joined_;
  bool holding_ = false;   // a timer runs for joined_
  bool awaiting_ = false;  // a timer runs for unacked_
};

}  // namespace pw::worker
