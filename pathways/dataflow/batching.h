// Batching: when messages to other hosts leave.
//
// Messages on the critical path leave at once: as soon as the event that produced them has been handled (FlushCritical), in a
// frame of their own, ahead of what waits. All others are coalesced per destination host until there are enough of them or the
// first has waited long enough. Counters show both.
//
// Invariants:
//   BA-1  no coalesced message waits longer than max_delay, if FlushDue is called at NextDue()
//   BA-2  a frame closes at max_bytes or max_messages, whichever is first; one message may be larger
//   BA-3  messages to one host of one kind (critical or not) leave in the order added
// Not thread-safe; the time comes from a Clock, waiting is the caller's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/dataflow/frame.h"

namespace pw::dataflow {

struct BatchingKnobs {
  absl::Duration max_delay = absl::Microseconds(200);
  size_t max_bytes = 64 << 10;
  size_t max_messages = 1024;
};

struct BatchingCounters {
  uint64_t critical_messages = 0;
  uint64_t critical_frames = 0;
  uint64_t coalesced_messages = 0;
  uint64_t coalesced_frames = 0;
  // Why frames of coalesced messages left.
  uint64_t full = 0;
  uint64_t due = 0;
};

class Batcher {
 public:
  using Emit = std::function<void(HostId to, bool critical, FrameBuilder frame)>;

  // `clock` outlives this.
  Batcher(const BatchingKnobs& knobs, Clock* clock, Emit emit) : knobs_(knobs), clock_(clock), emit_(std::move(emit)) {}

  template <class Message>
  void Add(HostId to, bool critical, const Message& message) {
    Host& host = hosts_[to];
    FrameBuilder& frame = critical ? host.critical : host.coalesced;
    if (frame.empty()) Opened(to, critical);
    frame.Add(message);
    ++(critical ? counters_.critical_messages : counters_.coalesced_messages);
    if (frame.bytes() >= knobs_.max_bytes || frame.messages() >= knobs_.max_messages) Full(to, critical);
  }

  // All critical messages leave.
  void FlushCritical();
  // When the coalesced message that has waited longest is due; nullopt: none waits.
  std::optional<absl::Time> NextDue();
  // All coalesced messages that are due leave.
  void FlushDue();
  // All leave.
  void FlushAll();
  // What waits leaves; what comes goes by these.
  void SetKnobs(const BatchingKnobs& knobs);
  // What waits for a host that is gone is dropped.
  void Drop(HostId host) { hosts_.erase(host); }
  size_t waiting_bytes(HostId to, bool critical) const;
  const BatchingCounters& counters() const { return counters_; }

 private:
  struct Host {
    FrameBuilder critical, coalesced;
    uint64_t opened = 0;  // names the present coalesced frame
  };
  struct Due {
    absl::Time at;
    HostId host;
    uint64_t opened;
  };
  void Opened(HostId to, bool critical);
  void Full(HostId to, bool critical);
  void EmitFrame(HostId to, bool critical);
  void FlushUntil(absl::Time limit);
  bool Stale(const Due& due) const;

  BatchingKnobs knobs_;
  Clock* const clock_;
  const Emit emit_;
  absl::flat_hash_map<HostId, Host> hosts_;
  std::vector<HostId> critical_;  // hosts with critical messages, in the order of the first
  std::deque<Due> due_;           // ascending, since the delay is always the same
  uint64_t next_opened_ = 1;
  BatchingCounters counters_;
};

}  // namespace pw::dataflow
