// Gangs: how the controller's computations meet the gang scheduler (pathways/gang). Every Execute, and every run of a program of
// many nodes, is a gang: submitted when it is dispatched, granted at once (then the grant goes with its command) or later (then a
// Grant command names it, one for each host and turn), done when all its hosts have said so.
//
// What a gang waits for before it may be granted (gang/scheduler.h) is followed here, array by array, only while something is
// waiting; where everything is granted at once this costs a look at an empty table.
//   - An array is *due* from the gangs that make it and have not been granted; one made from other arrays without a gang (copies,
//     new names) is due from whatever they are due from.
//   - An array whose bytes the client has not sent, or that travel in pieces, is due from outside until they are there: a device
//     must not stand still for one client's upload.
//   - A gang that takes arguments over (donation) waits on the host for earlier readers of them. All of its client's gangs that
//     share a device with it, and whatever its client's copies wait for, are therefore granted before it.
//
// Invariants:
//   GG-1  the Grants and Executes of a host's stream give its gangs in the order of the scheduler
//   GG-2  each gang is told to the scheduler as done exactly once, when its last host has completed, failed or been lost
//   GG-3  nothing is kept for an array that is due from nobody
//   GG-4  the command of a gang that is granted has left, or leaves next
// Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/clock.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/gang/scheduler.h"
#include "pathways/resource/topology.h"
#include "pathways/trace/recorder.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Gangs {
 public:
  // REQUIRES: gang::Scheduler::Create(options) is OK. All others outlive this.
  Gangs(const gang::Options& options, Clock* clock, const resource::Topology* topology, dispatch::Outbox* outbox,
        trace::Recorder* recorder);

  // A run that is dispatched node by node (controller/sequential_run.h) has a place in the order of its session's work. What is
  // submitted behind it, and names an array for which its command waits in the outbox (dispatch/array_order.h), is not granted before
  // the run has been sent: a device must not wait for a command that has not left.
  struct Barrier {
    SessionId session;
    gang::GangId gang;                 // none: it keeps nobody waiting
    std::vector<gang::GangId> before;  // of the session, waiting when it was opened
  };
  Barrier OpenBarrier(SessionId session);
  // The place alone: of a run whose arrays have names of their own (controller/program_steps.h).
  Barrier PlaceOf(SessionId session) const;
  // REQUIRES: the commands behind it are in the outbox.
  void CloseBarrier(const Barrier& barrier);

  struct Launch {
    SessionId session;
    ExecutableId executable;             // or the program, by its number: what costs are known by
    absl::Span<const DeviceId> devices;  // physical ones; constant for each executable
    absl::Span<const HostId> hosts;      // each completes once (OnHostDone)
    absl::Span<const ArrayId> args;
    absl::Span<const ArrayId> results;
    bool donates = false;
    gang::GangId after{};             // another computation that has to be granted before
    const Barrier* within = nullptr;  // of the run that it is part of
  };
  struct Ticket {
    gang::GangId gang;
    bool granted = false;
    uint64_t grant() const { return granted ? 0 : gang.v; }  // Execute.grant; of no gang: 0
  };
  // REQUIRES: the devices are there. The command must be added to the outbox next.
  Ticket Submit(const Launch& launch);
  // Without a time: it failed. `partly`: some of it did, which is no matter of scheduling.
  void OnHostDone(gang::GangId gang, std::optional<double> device_microseconds, bool partly = false);

  // `result` is made from `sources` by a command that no gang runs.
  void Derive(SessionId session, ArrayId result, absl::Span<const ArrayId> sources);
  // Bytes of the array are on their way from outside; it is due until so many Arrived, or it has settled.
  void Await(const buffers::LogicalArray::Ref& array);
  void Arrived(ArrayId array);

  void SetShare(SessionId session, const gang::Share& share);
  // Its share, what it has waiting and what it has used.
  gang::Scheduler::ClientStats ClientOf(SessionId session) const;
  void EndSession(SessionId session);
  void ForgetExecutable(ExecutableId executable);
  void OnHostLost(HostId host, absl::Span<const DeviceId> devices, const absl::Status& error);
  // Adds what has been granted since the last call to the outbox.
  void FlushGrants();

  // For the trace: what is granted and not done, now that the recording ends.
  void RecordUnderway();

  const gang::Scheduler& scheduler() const { return *scheduler_; }

 private:
  using Places = std::vector<gang::Scheduler::Place>;
  struct Placement {
    Places places;
    int devices = 0;
  };
  struct Running {
    SessionId session;
    absl::InlinedVector<HostId, 1> hosts;  // none: bytes from outside
    int hosts_left = 0;
    int devices = 0;
    bool failed = false;
    bool partly_failed = false;
    bool waiting = false;  // not granted
    double device_microseconds = 0;
    std::vector<ArrayId> due;  // arrays that are due from it, while it waits
  };
  struct Outside {
    gang::GangId gang;
    int missing = 0;
    buffers::LogicalArray::Ref array;  // lives until the bytes are there: those who read it may not be granted before
  };
  using GangList = std::vector<gang::GangId>;
  struct Client {
    std::map<const Placement*, GangList>
        launched;                        // waiting (some may not any more), since and with the last donor of that placement
    std::set<gang::GangId> copied;       // that its copies wait for
    std::vector<gang::GangId> barriers;  // that are open, in order
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
  void EndOutside(ArrayId array);
  int64_t NowNs() const;
  void Record(trace::Kind kind, const char* what, gang::GangId gang);

  Clock* const clock_;
  const absl::Time started_;
  const resource::Topology* const topology_;
  dispatch::Outbox* const outbox_;
  trace::Recorder* const recorder_;
  const std::unique_ptr<gang::Scheduler> scheduler_;
  std::map<Places, std::unique_ptr<Placement>> placements_;
  absl::flat_hash_map<ExecutableId, const Placement*> placement_of_;
  absl::flat_hash_map<gang::GangId, Running> running_;
  absl::flat_hash_map<ArrayId, absl::InlinedVector<gang::GangId, 2>> due_;
  absl::flat_hash_map<ArrayId, Outside> outside_;
  absl::flat_hash_map<SessionId, Client> clients_;
  std::map<HostId, ::pathways::v1::Grant> grants_;  // to be sent
};

}  // namespace pw::controller
