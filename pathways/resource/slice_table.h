// SliceTable: who has which physical devices, and who waits for some (paper 4.1). Pure state; the controller's strand owns it.
//
// A request is answered Placed, RetryLater (it is in the queue then) or Infeasible. Whatever frees or adds devices places those
// who wait, in their order; changes tell what became of them.
//
// Fairness: a request that waits keeps later ones out of the islands where it would fit, so that no stream of small requests starves
// it; islands that it has no use for stay open to all.
//
// Invariants:
//   ST-1  a device's load is the number of virtual devices that live slices have on it; its reserved memory what they set aside
//   ST-2  a device of an exclusive slice carries no other
//   ST-3  nobody waits who could be placed without passing someone older who waits for the same island
//   ST-4  nobody waits for what can never be: Infeasible is told as soon as the cluster's shape says so, and only then
//   ST-5  after the last slice is released all loads are zero
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/resource/placement.h"
#include "pathways/resource/topology.h"

namespace pw::resource {

// A slice as long as it lives. Its number is given when it is asked for, also while it waits.
struct Slice {
  SliceId id;
  SessionId owner;
  SliceRequest request;
  IslandId island;
  std::vector<DeviceId> devices;  // physical, by virtual device; none: it is parked
  uint64_t epoch = 1;             // counts its mappings
  std::vector<DeviceId> next;     // while it moves: where to
  bool broken = false;            // a host of it was lost; it keeps what is left until it is released
};

struct Placed {};
struct RetryLater {
  int position = 0;  // 1: the next
  std::string waits_for;
};
struct Infeasible {
  std::string why;
};
using Answer = std::variant<Placed, RetryLater, Infeasible>;

// What became of one who waited.
struct Outcome {
  SliceId slice;
  Answer answer;  // Placed or Infeasible
};
using Outcomes = std::vector<Outcome>;

class SliceTable {
 public:
  // REQUIRES: Malformed(request) is empty.
  std::pair<SliceId, Answer> Add(SessionId owner, SliceRequest request);
  // Placed while it lives, RetryLater while it waits. REQUIRES: it does one of them.
  Answer StateOf(SliceId slice) const;

  // It lives no more, or waits no more. Unknown ones are ignored.
  Outcomes Release(SliceId slice);
  Outcomes ReleaseOwner(SessionId owner);

  // Hosts came, or went. Those that had a device on one that went are broken from now on.
  Outcomes SetTopology(const Topology& topology);
  // Nothing new is placed on a drained host.
  Outcomes SetDrained(HostId host, bool drained);
  bool drained(HostId host) const { return drained_.contains(host); }

  // Moving a slice to other devices, by the request that made it. The new ones count from Begin on, the old ones until End. Begin:
  // Infeasible or RetryLater (nothing is queued then) if there are none, and the slice stays where it is. If a host of the new ones is lost
  // meanwhile, `next` is empty. EndMove REQUIRES that it is not, and that the slice is not broken.
  Answer BeginMove(SliceId slice);
  Outcomes EndMove(SliceId slice);
  Outcomes AbortMove(SliceId slice);

  // It gives its devices up and lives on; a move brings it back, perhaps elsewhere. REQUIRES: it does not move.
  Outcomes Park(SliceId slice);

  const Slice* Find(SliceId slice) const;
  std::vector<const Slice*> OfOwner(SessionId owner) const;
  std::vector<const Slice*> OnHost(HostId host) const;
  const std::map<SliceId, Slice>& slices() const { return slices_; }
  std::vector<SliceId> queue() const;
  const std::vector<Candidate>& candidates() const { return candidates_; }  // ascending by id
  const Candidate* FindCandidate(DeviceId device) const;

 private:
  struct Waiting {
    SliceId slice;
    SessionId owner;
    SliceRequest request;
    std::set<IslandId> islands;  // where it would fit if they were empty
  };

  Candidate* Find(DeviceId device);
  std::optional<IslandId> Beside(const SliceRequest& request) const;
  bool BesideIsGone(const SliceRequest& request) const { return request.beside.has_value() && Find(*request.beside) == nullptr; }
  std::optional<std::vector<DeviceId>> TryPlace(const SliceRequest& request, const std::set<IslandId>& closed) const;
  std::string WhyInfeasible(const SliceRequest& request) const;
  RetryLater Describe(size_t index) const;
  void Occupy(const std::vector<DeviceId>& devices, const SliceRequest& request, int sign);
  void Enter(SliceId id, SessionId owner, SliceRequest request, std::vector<DeviceId> devices);
  void Forget(SliceId slice);
  Outcomes PlaceWaiting();

  uint64_t next_id_ = 1;
  std::vector<Candidate> candidates_;
  std::set<HostId> drained_;
  std::map<SliceId, Slice> slices_;
  std::vector<Waiting> queue_;
};

}  // namespace pw::resource
