// Policy: whose turn it is. One object for each island, asked by the island's scheduler and told what came of it.
//
// A policy gives ranks; the scheduler does the rest. A gang's rank is the sum of a part of its own, fixed when it is submitted,
// and a part of its client, which moves as the client gets device time. Lower ranks go first. Equal ranks mean that the policy is
// indifferent: then gangs whose inputs are complete go first, then the older. Because only the client's part moves, a decision
// costs as much as finding the smallest of an ordered set, however many gangs wait.
//
// Pure: no clock, no randomness; times are values passed in. Costs are device time: the duration of a gang, once for each of its
// devices.
//
// Invariants:
//   PO-1  the rank of a waiting gang changes only where a method says so by returning true
//   PO-2  no gang is passed over for ever: as others are granted, their clients' ranks or those of later gangs grow past it
#pragma once

#include <cstdint>

#include "pathways/gang/ids.h"
#include "pathways/gang/share.h"

namespace pw::gang {

class Policy {
 public:
  virtual ~Policy() = default;

  virtual const char* name() const = 0;
  // The gang's own part. `sequence` counts submissions.
  virtual int64_t GangRank(uint64_t sequence, int64_t submitted_ns) const = 0;
  // The client's part. Clients need no introduction: an unknown one has the default share.
  virtual int64_t ClientRank(ClientId client) const = 0;

  // The following are true if ClientRank(client) has changed.
  virtual bool SetShare(ClientId client, const Share& share) = 0;
  // The client has work here (waiting or granted) and had none before.
  virtual bool OnActive(ClientId client) = 0;
  virtual bool OnGrant(ClientId client, int64_t predicted_device_ns) = 0;
  // What was predicted at the grant, and what it turned out to be.
  virtual bool OnDone(ClientId client, int64_t predicted_device_ns, int64_t measured_device_ns) = 0;

  // The client will not come back.
  virtual void Forget(ClientId client) = 0;
};

}  // namespace pw::gang
