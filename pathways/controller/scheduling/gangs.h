// Gangs: connects the controller's computations to the gang scheduler (pathways/gang), which decides when hosts may launch them. Each Execute
// is a gang, and so is each stage of a program's run (program_stages.h). A gang is submitted when it is dispatched. If the scheduler grants it at
// once, its command carries the grant. If later, a Grant command names it; each host gets at most one of these a turn of the strand. A gang is
// done when all its hosts have reported.
//
// This class tracks, array by array, which gangs must be granted before another one (gang/scheduler.h). It does so only while
// some gang waits; if all are granted at once, the cost is a look at an empty table.
//   - An array is *due* from the gangs that make it and are not granted yet. An array that is made from others without a gang (a
//     copy, an alias) is due from the same gangs as those arrays.
//   - An array whose bytes the client has not sent, or sends in pieces, is due from outside until all bytes have arrived. A
//     device must not stand idle for one client's upload.
//   - A gang that takes over arguments (donation) waits on the host for earlier readers of them. So it is granted only after all
//     gangs of its client that share a device with it, and after all gangs that its client's copies wait for.
//
// Invariants:
//   GG-1  the Grants and Executes in a host's stream name its gangs in the scheduler's order
//   GG-2  each gang is reported to the scheduler as done exactly once: when its last host has completed, failed or been lost
//   GG-3  an array that is due from no gang takes no memory here
//   GG-4  the command of a granted gang has been sent, or is the next to be added to the outbox
// Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/scheduling/recent_gangs.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/gang/scheduler.h"
#include "pathways/resource/topology.h"
#include "pathways/trace/recorder.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Gangs {
 public:
  // REQUIRES: gang::Scheduler::Create(options) is OK. All pointers must outlive this.
  Gangs(const gang::Options& options, Clock* clock, const resource::Topology* topology, dispatch::Outbox* outbox,
        trace::Recorder* recorder);

  // The place, in the order of its session's work, of a run that is dispatched node by node (controller/session/runs/sequential_run.h).
  // While it is open, a later gang is not granted if the outbox holds its command back until the run has been sent (dispatch/array_order.h).
  // A device must not wait for a command that has not left.
  struct Barrier {
    SessionId session;
    gang::GangId gang;                 // none: it blocks no other gang
    std::vector<gang::GangId> before;  // gangs of the session that waited when the barrier was opened
  };
  Barrier OpenBarrier(SessionId session);
  // Returns the place without opening a barrier: for a run whose arrays have names of their own, so that no other gang waits for it
  // (controller/session/runs/program_steps.h).
  Barrier PlaceOf(SessionId session) const;
  // Lets later gangs be granted. REQUIRES: all commands of the run are in the outbox.
  void CloseBarrier(const Barrier& barrier);

  struct Launch {
    SessionId session;
    ExecutableId executable;             // or the id of a program's stage: the key of measured costs
    absl::Span<const DeviceId> devices;  // constant for each executable; virtual ones are resolved
    absl::Span<const HostId> hosts;      // each completes once (OnHostDone)
    absl::Span<const ArrayId> args;
    absl::Span<const ArrayId> results;
    bool donates = false;
    gang::GangId after{};             // another computation that must be granted first
    const Barrier* within = nullptr;  // the place of its run, if it is part of one
    absl::string_view name{};         // for people; constant for each executable
  };
  struct Ticket {
    gang::GangId gang;
    bool granted = false;
    uint64_t grant() const { return granted ? 0 : gang.v; }  // the value of Execute.grant; 0 if granted
  };
  // Passes a computation to the scheduler. REQUIRES: the devices are present. The caller must add the command to the outbox next.
  Ticket Submit(const Launch& launch);
  // Notes that a host finished its part. No time: it failed. `partly`: some results failed; the scheduler counts the part as done.
  void OnHostDone(gang::GangId gang, std::optional<double> device_microseconds, bool partly = false);

  // Notes that a command without a gang makes `result` from `sources`.
  void Derive(SessionId session, ArrayId result, absl::Span<const ArrayId> sources);
  // Notes that bytes of the array are on their way from outside. The array is due until Arrived has been called as often as Await, or it
  // has settled.
  void Await(const buffers::LogicalArray::Ref& array);
  void Arrived(ArrayId array);

  void SetShare(SessionId session, const gang::Share& share);
  // Returns the session's share, its waiting gangs and its usage.
  gang::Scheduler::ClientStats ClientOf(SessionId session) const;
  void EndSession(SessionId session);
  void ForgetExecutable(ExecutableId executable);
  void OnHostLost(HostId host, absl::Span<const DeviceId> devices, const absl::Status& error);
  void OnHostJoined(absl::Span<const DeviceId> devices) { scheduler_->OnDevicesBack(devices); }
  // Sets the function that runs a task on the strand after a while. Without it, long gangs of shared islands wait until their devices are free.
  using After = std::function<void(absl::Duration delay, Task task)>;
  void SetAfter(After after) { after_ = std::move(after); }
  // Adds to the outbox a Grant for each host with gangs that were granted since the last call. Plans when to look again at gangs that wait for a
  // time. Called at the end of each turn of the strand.
  void FlushGrants();

  // Records the gangs that are granted and not done, at the end of a trace.
  void RecordUnderway();
  // A gang that is granted and not done.
  struct Underway {
    gang::GangId gang;
    SessionId session;
    ExecutableId executable;
    bool heads = false;                      // no gang that was granted earlier still has one of its hosts
    int64_t granted_ns = 0;                  // since Gangs was made; 0: granted while RecentGangs was off
    std::shared_ptr<const GangLabel> label;  // null: its executable was forgotten while RecentGangs was off
  };
  // Returns the gangs that are granted and not done, in the order of their grants.
  std::vector<Underway> ListUnderway() const;
  // The number and the device time of a session's gangs that are done.
  struct Done {
    double device_microseconds = 0;
    int64_t gangs = 0;
  };
  // Returns what was done since the last call, also for sessions that have ended.
  absl::flat_hash_map<SessionId, Done> TakeDone() { return std::exchange(done_, {}); }

  // Returns the record of the gangs that ended last. Its times are those of NowNs.
  RecentGangs& recent() { return recent_; }
  int64_t NowNs() const;

  const gang::Scheduler& scheduler() const { return *scheduler_; }

 private:
  using Places = std::vector<gang::Scheduler::Place>;
  struct Placement {
    Places places;
    int devices = 0;
  };
  struct Known {  // of an executable
    const Placement* placement = nullptr;
    std::shared_ptr<const GangLabel> label;
  };
  struct Running {
    SessionId session;
    absl::InlinedVector<HostId, 1> hosts;  // empty: bytes from outside, or a barrier
    int hosts_left = 0;
    int devices = 0;
    bool failed = false;
    bool partly_failed = false;
    bool waiting = false;                    // not granted
    uint64_t granted = 0;                    // its place in the order of grants
    int64_t granted_ns = 0;                  // 0 if it was granted while RecentGangs was off
    std::shared_ptr<const GangLabel> label;  // set while RecentGangs is on: its executable may be forgotten before it ends
    ExecutableId executable;
    double device_microseconds = 0;
    std::vector<ArrayId> due;  // while it waits: arrays that are due from it
  };
  struct Outside {
    gang::GangId gang;
    int missing = 0;
    buffers::LogicalArray::Ref array;  // held until the bytes have arrived: gangs that read it may not be granted before
  };
  using GangList = std::vector<gang::GangId>;
  struct Client {
    std::map<const Placement*, GangList> launched;  // gangs that wait (some no longer), from the last donor of that placement on
    std::set<gang::GangId> copied;                  // gangs that its copies wait for
    std::vector<gang::GangId> barriers;             // open ones, in order
  };

  const Placement* PlacementOf(const Launch& launch);
  static bool Overlap(const Placement& a, const Placement& b, const gang::Scheduler& scheduler);
  GangList Needs(const Launch& launch, const Placement* placement);
  void AddBarrierNeeds(const Launch& launch, GangList* needs) const;
  void AddDonorNeeds(Client& client, const Placement* placement, GangList* needs);
  void Enlist(gang::GangId gang, const Launch& launch, const Placement* placement);
  void MakeDue(ArrayId array, gang::GangId gang);
  bool IsWaiting(gang::GangId gang) const;
  void Settle(gang::GangId gang);
  void TakeGrants(gang::GangId submitted = {});
  void PlanWake();
  void EndOutside(ArrayId array);
  std::shared_ptr<const GangLabel> LabelOf(const Running& running) const;
  void Note(gang::GangId gang, const Running& running, int64_t busy_ns);
  void Record(trace::Kind kind, const char* what, gang::GangId gang);

  Clock* const clock_;
  const absl::Time started_;
  const resource::Topology* const topology_;
  dispatch::Outbox* const outbox_;
  trace::Recorder* const recorder_;
  const std::unique_ptr<gang::Scheduler> scheduler_;
  std::map<Places, std::unique_ptr<Placement>> placements_;
  absl::flat_hash_map<ExecutableId, Known> known_;
  absl::flat_hash_map<gang::GangId, Running> running_;
  absl::flat_hash_map<ArrayId, absl::InlinedVector<gang::GangId, 2>> due_;
  absl::flat_hash_map<ArrayId, Outside> outside_;
  absl::flat_hash_map<SessionId, Client> clients_;
  std::map<HostId, ::pathways::v1::Grant> grants_;  // not sent yet
  uint64_t next_grant_ = 1;
  After after_;
  int64_t planned_ns_ = gang::IslandScheduler::kNever;  // when the scheduler is told the time; kNever: not planned
  absl::flat_hash_map<SessionId, Done> done_;
  RecentGangs recent_;
};

}  // namespace pw::controller
