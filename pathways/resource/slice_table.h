// SliceTable: which physical devices each virtual slice has, and the queue of requests that wait for devices (paper 4.1). Pure state,
// owned by the controller's strand.
//
// Slices share devices: placement.h takes the least loaded ones, of one island. A request waits only for reserved memory, for devices of an
// exclusive slice, or to be exclusive itself. A live slice is one that was placed and not released; while it is parked, it has no devices.
//
// Add answers Placed, MustWait (the request is queued) or Infeasible. Every call that frees or adds devices places queued requests in
// queue order, and returns their outcomes, which the caller tells their sessions.
//
// Fairness: a queued request keeps later requests out of the islands where it would fit if there were no slices. Thus a stream of small
// requests does not starve it. Other islands stay open. A request that waits for its owner's quota keeps no other request waiting.
//
// Another table. A controller that takes the place of another one takes over the slices of the sessions that it restores, with their numbers and
// devices (Restore). Until all of these are back, it must place no others (set_held).
//
// Invariants:
//   ST-1  a device's load is the number of virtual devices on it, of live slices that do not leave, and of moves under way; its reserved
//         memory is the sum of their reservations
//   ST-2  a device of an exclusive slice carries no other slice, except those that leave
//   ST-3  a request does not wait if it can be placed in an island for which no older request waits, and its owner's quota has room,
//         unless the table is held
//   ST-4  a request is Infeasible exactly when it would not fit if there were no slices; drained hosts do not count. It is answered as soon
//         as that is known
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
  std::vector<DeviceId> devices;  // the physical device of each virtual one; empty while the slice is parked
  uint64_t epoch = 1;             // incremented at the end of each move
  std::vector<DeviceId> next;     // the new devices during a move
  bool broken = false;            // a host of its devices is lost. The ids of these come back with a host that takes the seat
  bool leaves = false;            // its owner has released it under the table before: until that is done again, it holds nothing
};

struct Placed {};
struct MustWait {
  int position = 0;  // position in the queue; 1: next
  std::string waits_for;
};
struct Infeasible {
  std::string why;
};
using Answer = std::variant<Placed, MustWait, Infeasible>;

// The outcome of a queued request.
struct Outcome {
  SliceId slice;
  Answer answer;  // Placed or Infeasible
};
using Outcomes = std::vector<Outcome>;

// Whether the quota of a slice's owner has room for it. `why`: what it waits for, or why it never fits.
struct QuotaRoom {
  enum class What { kNow, kLater, kNever };
  What what = What::kNow;
  std::string why = {};
};

class SliceTable {
 public:
  // Sets the quotas of owners. `room_for` gets the owner and the number of devices of a slice.
  using RoomFor = std::function<QuotaRoom(SessionId owner, int64_t devices)>;
  void SetQuotas(RoomFor room_for) { room_for_ = std::move(room_for); }

  // Places or queues a request. Returns its id and the answer. REQUIRES: Malformed(request) (placement.h) finds nothing.
  std::pair<SliceId, Answer> Add(SessionId owner, SliceRequest request);
  // Returns Placed for a live slice, MustWait for a queued one. REQUIRES: `slice` is one of them.
  Answer StateOf(SliceId slice) const;

  // Removes a live slice or a queued request. Ignores an unknown one.
  Outcomes Release(SliceId slice);
  // Removes all live slices and queued requests of a session.
  Outcomes ReleaseOwner(SessionId owner);
  // Looks at the queue again: quotas may have room for more.
  Outcomes Recheck() { return PlaceWaiting(); }

  // Takes over a live slice of another table. It is broken if some of its devices are not there. Returns why that cannot be; empty: it is done.
  std::string Restore(Slice slice);
  // Takes over a queued request of another table. Returns whether its number was free.
  bool RestoreWaiting(SliceId id, SessionId owner, SliceRequest request);
  // Numbers up to this one are not assigned any more.
  void SkipNumbers(SliceId last) { next_id_ = std::max(next_id_, last.v + 1); }
  // While the table is held, nothing is placed or moved. Call Recheck when it is not any more.
  void set_held(bool held) { held_ = held; }

  // Applies joined and lost hosts: `topology` is the whole cluster. Slices with a device on a lost host are broken until a host takes its seat.
  Outcomes SetTopology(const Topology& topology);
  // Sets whether a host is drained: a drained host takes no new slices.
  Outcomes SetDrained(HostId host, bool drained);
  bool drained(HostId host) const { return drained_.contains(host); }

  // Move a slice to other devices that satisfy its original request, in any island (SliceRequest::beside applies to the first placement
  // only). BeginMove occupies the new devices, and EndMove frees the old ones. If no such devices exist, BeginMove returns Infeasible or
  // MustWait and leaves the slice where it is; it queues nothing, so the caller tries again. The slice's `next` becomes empty if a host of
  // the new devices is lost meanwhile. EndMove REQUIRES: `next` is not empty and the slice is not broken.
  Answer BeginMove(SliceId slice);
  Outcomes EndMove(SliceId slice);
  Outcomes AbortMove(SliceId slice);

  // Frees the slice's devices and keeps the slice; a move gives it devices again. REQUIRES: the slice is not moving.
  Outcomes Park(SliceId slice);

  const Slice* Find(SliceId slice) const;
  std::vector<const Slice*> OfOwner(SessionId owner) const;
  // Returns the number of devices of the session's live slices.
  int64_t DevicesOf(SessionId owner) const;
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
    std::set<IslandId> islands;   // where it would fit if there were no slices
    std::string over_quota = {};  // not empty: it waits for its owner's quota, in these words
  };

  QuotaRoom Room(SessionId owner, const SliceRequest& request) const {
    return room_for_ ? room_for_(owner, request.count) : QuotaRoom();
  }
  Candidate* Find(DeviceId device);
  std::optional<IslandId> Beside(const SliceRequest& request) const;
  bool BesideIsGone(const SliceRequest& request) const { return request.beside.has_value() && Find(*request.beside) == nullptr; }
  std::optional<std::vector<DeviceId>> TryPlace(const SliceRequest& request, const std::set<IslandId>& closed) const;
  bool IsTaken(SliceId id) const;
  // Returns why the devices cannot carry the slice beside those that they carry; empty: they can.
  std::string Conflict(const Slice& slice) const;
  std::string WhyInfeasible(const SliceRequest& request) const;
  MustWait Describe(size_t index) const;
  void Occupy(const std::vector<DeviceId>& devices, const SliceRequest& request, int sign);
  void Enter(SliceId id, SessionId owner, SliceRequest request, std::vector<DeviceId> devices);
  void Forget(SliceId slice);
  Outcomes PlaceWaiting();

  RoomFor room_for_;  // null: no quotas
  bool held_ = false;
  uint64_t next_id_ = 1;
  std::vector<Candidate> candidates_;
  std::set<HostId> drained_;
  std::map<SliceId, Slice> slices_;
  std::vector<Waiting> queue_;
};

}  // namespace pw::resource
