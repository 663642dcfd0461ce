// IslandScheduler: one order of gangs for all devices of an island (paper 4.4).
//
// A gang runs on a lane: a set of devices of the island. Eligible gangs wait in their lane by the policy's rank; a gang is
// granted when it comes first among all that wait for any of its devices and each of them has room in its window. The sequence of
// grants is the order; every device launches its gangs in that order, so no two devices see two gangs the other way round.
//
// Why this cannot deadlock. Give each grant its place in the order.
//   - Only eligible gangs come here (scheduler.h): all producers of their inputs have been granted. So a granted gang waits for
//     inputs made by earlier grants, and for its devices to launch what was granted before it: every wait goes from a later grant
//     to an earlier one, and the earliest grant that is not done waits for nothing. Hence granted gangs end, and windows empty.
//   - A waiting gang waits for room, which comes as granted gangs end, and for gangs of lower rank. Of all that wait, the one
//     with the lowest rank waits for room alone. So it is granted, by induction all are, and by PO-2 none is passed over for
//     ever.
//   - A gang over several islands that comes first here is held: it keeps its place before everything, takes nothing from the
//     window, and waits for its place in islands of higher number alone. Holds go from lower to higher islands, so the one held
//     in the highest is granted first, and no circle closes.
//
// Windows. A device has room for a gang if what has been granted to it and is not done, by prediction, stays within
// Options::window_ns, or is fewer than Options::window_gangs gangs.
//
// Cost. A decision is a few operations on ordered sets for each atom (partition.h) of the lane: O(atoms * log waiting), whatever
// the number of devices; comparisons() counts them.
//
// Invariants:
//   IS-1  between two gangs that share a device, the one granted first is the one that came first by rank (held first of all)
//   IS-2  after Pump no gang waits that could be granted
//   IS-3  what a device has outstanding is the sum of the predictions of gangs granted on it and not finished
// Pure: strand-confined, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "pathways/gang/cost_model.h"
#include "pathways/gang/ids.h"
#include "pathways/gang/options.h"
#include "pathways/gang/partition.h"
#include "pathways/gang/policy.h"

namespace pw::gang {

class IslandScheduler {
 public:
  struct Work {
    GangId id;  // also its place in the order of submission
    ClientId client;
    LaneId lane;
    ExecutableId executable;
    int64_t submitted_ns = 0;
    bool inputs_complete = true;
  };
  enum class Decision { kGrant, kHold };
  // Called when a gang may be granted here. kHold: it keeps its place until Commit or Remove. Must not call back.
  using Decide = absl::FunctionRef<Decision(GangId)>;

  // `costs` outlives this.
  IslandScheduler(const Options& options, std::unique_ptr<Policy> policy, const CostModel* costs);

  // The lane of these devices. Call it once for each executable rather than for each gang.
  LaneId Lane(absl::Span<const DeviceId> devices);
  // False if a device of the lane was lost.
  bool usable(LaneId lane) const { return !lanes_[lane.v].lost; }

  // True if they share a device.
  bool Overlap(LaneId a, LaneId b) const;

  // The gang is eligible. REQUIRES: usable(work.lane).
  void Enqueue(const Work& work);
  void SetInputsComplete(GangId gang);
  // A held gang is granted.
  void Commit(GangId gang);
  // A granted gang is done. Unknown gangs are ignored here and below.
  void Finish(GangId gang, int64_t measured_ns);
  // The gang goes without a trace, whatever state it is in; its client gets back what it was charged.
  void Remove(GangId gang);
  // Gangs on these devices go, and nothing more is taken for them. Returns all that had not finished, ascending.
  std::vector<GangId> LoseDevices(absl::Span<const DeviceId> devices);

  void SetShare(ClientId client, const Share& share);
  void Forget(ClientId client) { policy_->Forget(client); }

  // Decides all that can be decided.
  void Pump(Decide decide);

  const Policy& policy() const { return *policy_; }
  size_t device_count(LaneId lane) const { return partition_.devices(lane).size(); }
  uint64_t comparisons() const { return *comparisons_; }
  int64_t outstanding_ns(LaneId lane) const;  // of its busiest device
  int outstanding_gangs(LaneId lane) const;

 private:
  // The order of a lane: rank, then complete inputs, then age. Held gangs come before everything.
  struct Key {
    int64_t rank = 0;
    bool incomplete = false;
    uint64_t sequence = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct CountedLess {
    uint64_t* count;
    template <class T>
    bool operator()(const T& a, const T& b) const {
      ++*count;
      return a < b;
    }
  };
  template <class T>
  using Ordered = std::set<T, CountedLess>;
  struct LaneState {
    absl::flat_hash_map<ClientId, Ordered<Key>> queues;  // by the gangs' own part of the rank; none is empty
    Ordered<std::pair<Key, ClientId>> heads;             // the first of each queue, by full rank
    bool registered = false;                             // with the atoms, under `first`
    Key first;
    GangId held;
    bool dirty = false;
    bool lost = false;
  };
  struct AtomState {
    int64_t outstanding_ns = 0;
    int outstanding_gangs = 0;
    Ordered<std::pair<Key, LaneId>> waiting;  // lanes that have something to grant, by their first
  };
  enum class State { kQueued, kHeld, kGranted };
  struct Item {
    ClientId client;
    LaneId lane;
    ExecutableId executable;
    Key key;                   // with the gang's own part of the rank
    int64_t predicted_ns = 0;  // once granted
    State state = State::kQueued;
  };
  struct Client {
    int gangs = 0;              // waiting or granted
    std::vector<LaneId> lanes;  // where it has a queue
  };

  template <class T>
  Ordered<T> MakeOrdered() {
    return Ordered<T>(CountedLess{comparisons_.get()});
  }
  Key FullKey(ClientId client, Key key) const;
  int64_t DeviceTime(const Item& item, int64_t ns) const;
  void Queue(const Item& item);
  void Unqueue(const Item& item);
  void Rerank(ClientId client, absl::FunctionRef<bool()> change);
  void Update(LaneId lane);
  void WakeFirst(LaneId lane);
  bool IsFirst(LaneId lane) const;
  bool HasRoom(LaneId lane, int64_t predicted_ns) const;
  void Grant(Item& item);
  void ReturnRoom(const Item& item);
  void Erase(absl::flat_hash_map<GangId, Item>::iterator it);
  void DecideLane(LaneId lane, Decide decide);

  const int64_t window_ns_;
  const int window_gangs_;
  const std::unique_ptr<Policy> policy_;
  const CostModel* const costs_;
  const std::unique_ptr<uint64_t> comparisons_ = std::make_unique<uint64_t>(0);
  Partition partition_;
  std::vector<LaneState> lanes_;
  std::vector<AtomState> atoms_;
  absl::flat_hash_map<GangId, Item> items_;
  absl::flat_hash_map<ClientId, Client> clients_;
  std::deque<LaneId> dirty_;  // lanes whose first gang may have become grantable
};

}  // namespace pw::gang
