// Scheduler: all computations of all clients on all islands, from submission to completion. It keeps what is not one island's
// business: who waits for whose results, gangs that span islands, what executables cost.
//
//   waiting ── all producers granted ──► eligible: queued in its first island ──► ... ──► granted ── OnDone ──► gone
//
// Eligibility. A gang is handed to an island's order only when all gangs that produce its inputs have been granted, though not
// necessarily completed. island_scheduler.h says why that, with launches in the order of grants, cannot deadlock.
//
// Several islands. Such a gang takes its place in one island after the other, in ascending island id, held in each until it comes
// first in the next; when it comes first in the last it is granted in all at once.
//
// An end is an end, whatever the reason: those who wait for the results of a gang that failed, was cancelled or lost its devices
// go on as if it had been granted and completed; its results are errors, which is somebody else's matter.
//
// Invariants:
//   SC-1  a gang is granted at most once, and never after Cancel, OnDone or OnDevicesLost has taken it
//   SC-2  TakeGrants gives grants in one sequence that agrees with the order of every island
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
    absl::Span<const GangId> producers{};  // of its inputs; those that are gone do not matter
  };
  struct ClientStats {
    Share share;
    int64_t waiting = 0;  // submitted, not granted
    int64_t granted = 0;  // not done
    int64_t done = 0;
    int64_t device_ns = 0;  // measured
    bool ended = false;     // cancelled: goes with its last gang
  };

  // INVALID_ARGUMENT for options that make no sense.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(const Options& options);

  // The lane of devices of one island: once for each executable.
  LaneId Lane(IslandId island, absl::Span<const DeviceId> devices);

  // The gang may be granted by this call. If it cannot be because a device was lost, it is gone at once (TakeLost).
  GangId Submit(const Gang& gang, int64_t now_ns);
  // Something outside the scheduler that gangs may name as a producer, until OnDone ends it.
  GangId Expect();
  // The client is gone: what has not been granted disappears, the rest runs to its end. Its share is forgotten.
  void Cancel(ClientId client);
  // The gang has run for so long, or has failed (nullopt), granted or not. Unknown gangs are ignored.
  void OnDone(GangId gang, std::optional<int64_t> measured_ns);
  // In whatever islands they are.
  void OnDevicesLost(absl::Span<const DeviceId> devices);

  void SetShare(ClientId client, const Share& share);
  void ForgetExecutable(ExecutableId executable) { costs_.Forget(executable); }
  int64_t PredictCost(ExecutableId executable) const { return costs_.Predict(executable); }

  // Since the last call, in order. A gang may have gone since it was granted.
  std::vector<GangId> TakeGrants();
  // Gangs that were removed, granted or not, because a device of theirs was lost.
  std::vector<GangId> TakeLost();

  bool IsWaiting(GangId gang) const;                // submitted, not granted, not gone
  size_t gangs() const { return records_.size(); }  // those expected from outside, too
  uint64_t grants() const { return grants_total_; }
  const Options& options() const { return options_; }
  // Those that were given work or a share, until Cancel and the end of what was granted.
  const std::map<ClientId, ClientStats>& clients() const { return clients_; }
  const IslandScheduler* island(IslandId island) const;  // null: nothing was ever submitted there

 private:
  struct Record {
    ClientId client;
    ExecutableId executable;
    absl::InlinedVector<Place, 1> places;
    size_t reached = 0;  // places where it is queued or held; the last of them is where it is queued
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
