// Policy: ranks the gangs that wait on an island. Each IslandScheduler has one, asks it for ranks, and reports grants and
// completions to it.
//
// A gang's rank is the sum of the gang's own part, fixed at submission, and its client's part, which changes as the client gets
// device time. Lower ranks go first. Among equal ranks, gangs whose inputs are complete go first, then older gangs. Because only
// the client's part changes, a decision costs as much as finding the smallest element of an ordered set, however many gangs wait.
//
// Pure: no clock, no randomness; times are passed in. Costs are device time: a gang's duration times the number of its devices.
//
// Invariants:
//   PO-1  the rank of a waiting gang changes only in a method that returns true to say so
//   PO-2  no gang is overtaken for ever: as others are granted, their clients' ranks or those of later gangs grow beyond its own
#pragma once

#include <cstdint>

#include "pathways/gang/ids.h"
#include "pathways/gang/share.h"

namespace pw::gang {

class Policy {
 public:
  virtual ~Policy() = default;

  virtual const char* name() const = 0;
  // Returns the gang's own part of the rank. `sequence` counts submissions.
  virtual int64_t GangRank(uint64_t sequence, int64_t submitted_ns) const = 0;
  // Returns the client's part of the rank. An unknown client has the default share.
  virtual int64_t ClientRank(ClientId client) const = 0;

  // These methods return true if ClientRank(client) has changed.
  virtual bool SetShare(ClientId client, const Share& share) = 0;
  // The client has work here (waiting or granted), and had none before.
  virtual bool OnActive(ClientId client) = 0;
  virtual bool OnGrant(ClientId client, int64_t predicted_device_ns) = 0;
  // A gang is done. `predicted_device_ns`: the prediction at its grant.
  virtual bool OnDone(ClientId client, int64_t predicted_device_ns, int64_t measured_device_ns) = 0;

  // Forgets a client that will not come back.
  virtual void Forget(ClientId client) = 0;
};

}  // namespace pw::gang
