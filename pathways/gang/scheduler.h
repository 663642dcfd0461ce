// Scheduler: schedules the gangs of all clients on all islands, from submission to completion. A gang is one execution of a computation;
// all its devices must launch it. The controller (controller/scheduling/gangs.h) submits gangs, and tells hosts to launch those that the Scheduler
// grants. Each island has an IslandScheduler, which orders the island's gangs. The Scheduler itself keeps the state that concerns several
// islands: gangs that wait for results of other gangs, gangs that span islands, and the costs of executables.
//
//   waiting ── all producers granted ──► eligible: queued in its first island ──► ... ──► granted ── OnDone ──► gone
//
// Eligibility. A gang enters an island's order once all gangs that produce its inputs have been granted. They need not be done:
// devices queue launches. island_scheduler.h explains why this cannot deadlock if devices launch in the order of grants.
//
// Several islands. A gang that spans islands takes its place in one island after the other, in ascending island id. Each island
// holds it until it is first in the next one. When it is first in the last island, it is granted in all of them at once.
//
// Failures. A gang that failed, was cancelled or lost its devices counts as granted and completed for the gangs that wait for its
// results. Its results are errors, which the scheduler knows nothing of.
//
// Invariants:
//   SC-1  a gang is granted at most once, and never after Cancel, OnDone or OnDevicesLost has removed it
//   SC-2  TakeGrants returns grants in one sequence, which agrees with the order of every island
//   SC-3  a gang is granted after all its producers
//   SC-4  a gang is granted in all its islands or in none
// Pure: strand-confined, no clock; times are nanoseconds passed in.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/gang/cost_model.h"
#include "pathways/gang/island_scheduler.h"

namespace pw::gang {

class Scheduler {
 public:
  // A gang's devices in one island.
  struct Place {
    IslandId island;
    LaneId lane;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Gang {
    ClientId client;
    ExecutableId executable;
    absl::Span<const Place> places;        // ascending islands, each once, at least one
    absl::Span<const GangId> producers{};  // of its inputs; those that are gone are ignored
  };
  struct ClientStats {
    Share share;
    int64_t waiting = 0;  // submitted, not granted
    int64_t granted = 0;  // not done
    int64_t done = 0;
    int64_t device_ns = 0;  // measured
    bool ended = false;     // cancelled: forgotten with its last gang
  };

  // INVALID_ARGUMENT: an unknown policy, or values out of range.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(const Options& options);

  // Returns the lane of these devices of one island. Call it once per executable.
  LaneId Lane(IslandId island, absl::Span<const DeviceId> devices);

  // Submits a gang; this call may grant it already. If one of its devices is lost, the gang is gone at once (TakeLost).
  GangId Submit(const Gang& gang, int64_t now_ns);
  // Returns an id for an event outside the scheduler, such as the arrival of a client's bytes. Gangs may name it as a producer, and wait
  // until OnDone ends it.
  GangId Expect();
  // Ends a client: removes its gangs that have not been granted, and lets the others finish. Forgets its share after the last one.
  void Cancel(ClientId client);
  // Ends a gang, granted or not. `measured_ns`: its duration, or nullopt if it failed. Unknown gangs are ignored.
  void OnDone(GangId gang, std::optional<int64_t> measured_ns, int64_t now_ns);
  // Removes all gangs on these devices, which may lie in several islands.
  void OnDevicesLost(absl::Span<const DeviceId> devices);
  // Lets gangs use these devices again: a host has taken their seats.
  void OnDevicesBack(absl::Span<const DeviceId> devices);

  // Sets the client's weight and priority on all islands.
  void SetShare(ClientId client, const Share& share);
  void ForgetExecutable(ExecutableId executable) { costs_.Forget(executable); }
  int64_t PredictCost(ExecutableId executable) const { return costs_.Predict(executable); }
  bool HasMeasured(ExecutableId executable) const { return costs_.Knows(executable); }

  // Returns the time at which a waiting gang may be granted although none ends (island_scheduler.h, Long gangs); the caller should
  // call Advance then. IslandScheduler::kNever: none waits for a time.
  int64_t WakeAt() const;
  // Says that it is so late.
  void Advance(int64_t now_ns);
  // Returns the gangs granted since the last call, in order. Some may be gone already.
  std::vector<GangId> TakeGrants();
  // Returns the gangs removed since the last call, granted or not, because one of their devices was lost. A gang that lost devices in
  // several islands is listed once for each.
  std::vector<GangId> TakeLost();

  bool IsWaiting(GangId gang) const;                // submitted, not granted, not gone
  size_t gangs() const { return records_.size(); }  // includes those of Expect
  uint64_t grants() const { return grants_total_; }
  const Options& options() const { return options_; }
  // Returns the clients that have submitted gangs or been given a share. A client is removed after Cancel, with its last granted gang.
  const std::map<ClientId, ClientStats>& clients() const { return clients_; }
  const IslandScheduler* island(IslandId island) const;  // null: no lane of it has been asked for

 private:
  struct Record {
    ClientId client;
    ExecutableId executable;
    absl::InlinedVector<Place, 1> places;
    size_t reached = 0;  // the number of its places where it is queued or held; it is queued in the last of these
    uint32_t producers_waiting = 0;
    uint32_t producers_running = 0;
    absl::InlinedVector<GangId, 2> dependents;
    int64_t submitted_ns = 0;
    bool granted = false;
  };
  using Records = absl::flat_hash_map<GangId, Record>;

  explicit Scheduler(const Options& options) : options_(options), costs_(options.default_cost_ns) {}
  IslandScheduler& Island(IslandId id);
  void Enqueue(GangId id, Record& record);
  void Pump();
  void PumpIsland(IslandId id);
  void Grant(GangId id);
  std::vector<GangId> LoseDevices(IslandId island, absl::Span<const DeviceId> devices);
  void Gone(GangId id);
  void ForgetIfOver(ClientId client);
  void ReleaseDependents(const Record& record, bool was_granted);

  const Options options_;
  CostModel costs_;
  int64_t now_ns_ = 0;  // the latest time that was passed in
  uint64_t next_gang_ = 1;
  uint64_t grants_total_ = 0;
  Records records_;
  std::map<IslandId, std::unique_ptr<IslandScheduler>> islands_;
  std::map<ClientId, ClientStats> clients_;
  std::deque<IslandId> dirty_;
  std::vector<GangId> grants_;
  std::vector<GangId> lost_;
};

}  // namespace pw::gang
