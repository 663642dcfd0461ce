// IslandScheduler: fixes one order of gangs for all devices of an island (paper 4.4). The Scheduler has one per island.
//
// A gang is one execution of a computation; all its devices must launch it. An island is a set of hosts whose devices share one
// fast interconnect. A lane is a set of devices of the island: gangs of the same devices have the same lane; lanes may overlap.
//
// A gang comes here when it is eligible: all gangs that produce its inputs were granted (scheduler.h). It waits in its lane,
// ordered by rank; lower ranks go first. The policy gives the rank: the gang's own part, which is fixed, plus its client's part,
// which changes as the client gets device time. A gang is granted when it is first among all that wait for any of its devices,
// and each of its devices has room (Windows, below). The sequence of grants is the order. Every device launches its gangs in that
// order, so no two devices launch two gangs in different orders.
//
// Why this cannot deadlock. Number the grants by their place in the order.
//   - Only eligible gangs come here. So a granted gang waits only for inputs made by earlier grants, and for its devices to
//     launch earlier grants. The earliest grant that is not done waits for nothing. Hence granted gangs end, and windows empty.
//   - A waiting gang waits for room, which granted gangs free when they end, if not before, and for gangs of lower rank. The waiting gang of the
//     lowest rank waits for room alone, so it is granted. By induction all are granted. No gang is overtaken for ever (policy.h,
//     PO-2).
//   - A gang on several islands that could be granted here is held, until it can be granted in all. It stays before all others of
//     its devices, takes no room, and waits only for islands of higher number. Holds go from lower to higher islands, so the gang
//     held in the highest island is granted first, and no cycle of waits can form.
//
// Windows. A device has room for a gang in two cases. Fewer than Options::window_gangs of its granted gangs are not done. Or
// their predicted time, together with the new gang's, stays within Options::window_ns.
//
// Long gangs. A gang that fits by their number only is granted early for one reason: its device must not stand idle between two
// gangs. If it were granted at once, a client that comes meanwhile would wait for two long gangs of another client, and not for
// the rest of one. So if the island has had several clients, such a gang waits until the device is predicted to be free within
// Options::lead_ns. RoomAt() tells the time, and Advance() says that it has come. A gang that ends early frees its room as always.
//
// Cost. A decision takes a few operations on ordered sets for each atom (partition.h) of the lane: O(atoms * log waiting), for
// any number of devices. comparisons() counts them.
//
// Invariants:
//   IS-1  of two gangs that share a device, the one that comes first by rank is granted first; held gangs come before all others
//   IS-2  after Pump no gang waits that could be granted, and none can before WakeAt unless another one ends
//   IS-3  a device's outstanding time is the sum of the predictions of the gangs granted on it and not finished
// Pure: strand-confined, no clock; the Scheduler tells the time.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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
    bool inputs_complete = true;  // among gangs of equal rank, those with complete inputs go first
  };
  enum class Decision { kGrant, kHold };
  // Called when a gang may be granted here. kHold: the gang, which spans islands, keeps its place until Commit or Remove. Must
  // not call this scheduler.
  using Decide = absl::FunctionRef<Decision(GangId)>;

  // `costs` and the time `now_ns` outlive this. The time never goes back.
  IslandScheduler(const Options& options, std::unique_ptr<Policy> policy, const CostModel* costs, const int64_t* now_ns);

  // Returns the lane of these devices; makes it if it is new. Call it once per executable, not per gang.
  LaneId Lane(absl::Span<const DeviceId> devices);
  // Returns false if a device of the lane is lost.
  bool usable(LaneId lane) const { return !lanes_[lane.v].lost; }

  // Returns whether the lanes share a device.
  bool Overlap(LaneId a, LaneId b) const;

  // Queues an eligible gang. REQUIRES: usable(work.lane).
  void Enqueue(const Work& work);
  // Says that all inputs of a queued gang are complete. This method and those below ignore unknown gangs.
  void SetInputsComplete(GangId gang);
  // Grants a held gang.
  void Commit(GangId gang);
  // Ends a granted gang, and corrects its client's charge to the measured time.
  void Finish(GangId gang, int64_t measured_ns);
  // Removes a gang in any state, and refunds its client's charge.
  void Remove(GangId gang);
  // Removes all gangs on these devices, and returns them, ascending. Lanes with these devices are not usable until RegainDevices.
  std::vector<GangId> LoseDevices(absl::Span<const DeviceId> devices);
  void RegainDevices(absl::Span<const DeviceId> devices);

  // Sets the client's weight and priority in the policy.
  void SetShare(ClientId client, const Share& share);
  // Forgets the policy's state of a client that will not come back.
  void Forget(ClientId client);

  // The time at which Advance may give a waiting gang room; kNever: none waits for a time.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t WakeAt() const { return wake_ns_; }
  // Looks again at gangs that wait for their device to be almost free. The next Pump grants them.
  void Advance();

  // Calls `decide` for each gang that may be granted, until none is left.
  void Pump(Decide decide);

  const Policy& policy() const { return *policy_; }
  size_t device_count(LaneId lane) const { return partition_.devices(lane).size(); }
  uint64_t comparisons() const { return *comparisons_; }
  // Return the predicted time, and the number, of granted gangs that are not done, on the busiest device of the lane.
  int64_t outstanding_ns(LaneId lane) const;
  int outstanding_gangs(LaneId lane) const;

 private:
  // The order within a lane: rank, then complete inputs, then age. Held gangs come first.
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
    absl::flat_hash_map<ClientId, Ordered<Key>> queues;  // ordered by the gangs' own part of the rank; none is empty
    Ordered<std::pair<Key, ClientId>> heads;             // the first of each queue, by full rank
    bool registered = false;                             // whether its atoms list it in `waiting`, under `first`
    Key first;
    GangId held;
    bool dirty = false;
    bool early = false;  // in early_
    bool lost = false;
  };
  struct AtomState {
    int64_t outstanding_ns = 0;
    int outstanding_gangs = 0;
    int64_t free_ns = 0;      // the predicted time at which all of these are done
    Ordered<std::pair<Key, LaneId>> waiting;  // lanes with waiting or held gangs, by their first gang
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
    std::vector<LaneId> lanes;  // lanes in which it has a queue
  };

  template <class T>
  Ordered<T> MakeOrdered() {
    return Ordered<T>(CountedLess{comparisons_.get()});
  }
  bool HasLost(LaneId lane) const;
  void UpdateLost();
  Key FullKey(ClientId client, Key key) const;
  int64_t DeviceTime(const Item& item, int64_t ns) const;
  void Queue(const Item& item);
  void Unqueue(const Item& item);
  void Rerank(ClientId client, absl::FunctionRef<bool()> change);
  void Update(LaneId lane);
  void WakeFirst(LaneId lane);
  bool IsFirst(LaneId lane) const;
  int64_t RoomAt(LaneId lane, int64_t predicted_ns) const;
  void MarkDirty(LaneId lane);
  void Grant(Item& item);
  void ReturnRoom(const Item& item);
  void Erase(absl::flat_hash_map<GangId, Item>::iterator it);
  void DecideLane(LaneId lane, Decide decide);

  const int64_t window_ns_;
  const int window_gangs_;
  const int64_t lead_ns_;
  const std::unique_ptr<Policy> policy_;
  const CostModel* const costs_;
  const int64_t* const now_ns_;
  const std::unique_ptr<uint64_t> comparisons_ = std::make_unique<uint64_t>(0);
  Partition partition_;
  std::vector<LaneState> lanes_;
  std::vector<AtomState> atoms_;
  absl::flat_hash_map<GangId, Item> items_;
  absl::flat_hash_map<ClientId, Client> clients_;
  absl::flat_hash_set<DeviceId> lost_;
  std::deque<LaneId> dirty_;  // lanes whose first gang may have become grantable
  absl::flat_hash_set<ClientId> known_;  // clients that have had gangs here
  std::vector<LaneId> early_;            // lanes whose first gang waits for its devices to be almost free
  int64_t wake_ns_ = kNever;             // no later than the first time at which one of these may have room
};

}  // namespace pw::gang
