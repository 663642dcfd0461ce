// SliceTable: the live virtual slices with their physical devices, and the queue of requests that wait for devices (paper 4.1). Pure
// state, owned by the controller's strand.
//
// A request is answered Placed, RetryLater (then it is queued) or Infeasible. Every call that frees or adds devices places queued
// requests in queue order and returns their outcomes.
//
// Fairness: a queued request keeps later requests out of the islands where it would fit, so that a stream of small requests does not
// starve it. Islands where it would not fit stay open.
//
// Invariants:
//   ST-1  a device's load is the number of virtual devices that live slices have on it; its reserved memory is the sum of theirs
//   ST-2  a device of an exclusive slice carries no other slice
//   ST-3  no request waits that could be placed without overtaking an older request that waits for the same island
//   ST-4  a request is Infeasible exactly when this cluster could never satisfy it; it is answered as soon as that is known
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

// A live slice. Its id is assigned with the request, before it is placed.
struct Slice {
  SliceId id;
  SessionId owner;
  SliceRequest request;
  IslandId island;
  std::vector<DeviceId> devices;  // physical, by virtual device; empty: the slice is parked
  uint64_t epoch = 1;             // incremented when the slice moves
  std::vector<DeviceId> next;     // the new devices during a move
  bool broken = false;            // one of its hosts was lost; it keeps the other devices until released
};

struct Placed {};
struct RetryLater {
  int position = 0;  // position in the queue; 1: next
  std::string waits_for;
};
struct Infeasible {
  std::string why;
};
using Answer = std::variant<Placed, RetryLater, Infeasible>;

// The outcome of a queued request.
struct Outcome {
  SliceId slice;
  Answer answer;  // Placed or Infeasible
};
using Outcomes = std::vector<Outcome>;

class SliceTable {
 public:
  // Places or queues a request. Returns its id and the answer. REQUIRES: Malformed(request) is empty.
  std::pair<SliceId, Answer> Add(SessionId owner, SliceRequest request);
  // Returns Placed for a live slice, RetryLater for a queued one. REQUIRES: `slice` is one of them.
  Answer StateOf(SliceId slice) const;

  // Remove live slices and queued requests. Unknown ones are ignored.
  Outcomes Release(SliceId slice);
  Outcomes ReleaseOwner(SessionId owner);

  // Applies joined and lost hosts. Slices with a device on a lost host become broken.
  Outcomes SetTopology(const Topology& topology);
  // Sets whether a host is drained: a drained host takes no new slices.
  Outcomes SetDrained(HostId host, bool drained);
  bool drained(HostId host) const { return drained_.contains(host); }

  // Move a slice to other devices that satisfy its original request (without `beside`). BeginMove occupies the new devices, and
  // EndMove frees the old ones. If no such devices exist, BeginMove returns Infeasible or RetryLater, queues nothing, and leaves
  // the slice where it is. The slice's `next` becomes empty if a host of the new devices is lost meanwhile. EndMove REQUIRES:
  // `next` is not empty and the slice is not broken.
  Answer BeginMove(SliceId slice);
  Outcomes EndMove(SliceId slice);
  Outcomes AbortMove(SliceId slice);

  // Frees the slice's devices and keeps the slice; a move gives it devices again. REQUIRES: the slice is not moving.
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
    std::set<IslandId> islands;  // where it would fit if there were no slices
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
