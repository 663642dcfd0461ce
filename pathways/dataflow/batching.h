// Batcher: collects a runtime's messages to other hosts in frames, and decides when each frame leaves.
//
// Critical messages leave as soon as the event that produced them has been handled (FlushCritical), in frames of their own, ahead
// of coalesced ones. All other messages are coalesced per destination host until their frame is full, or its first message has
// waited max_delay.
//
// Invariants:
//   BA-1  no coalesced message waits longer than max_delay, if the caller calls FlushDue at NextDue()
//   BA-2  a frame closes at max_bytes or max_messages, whichever it reaches first; a single message may be larger
//   BA-3  messages of one kind (critical or coalesced) to one host leave in the order in which they were added
// Not thread-safe. The caller arms the timers; the Batcher only reads the Clock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
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
  // Coalesced frames that left because they were full, and those that left because their delay was over.
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

  // Emits all critical messages.
  void FlushCritical();
  // Returns when the oldest coalesced frame is due; nullopt if none waits.
  std::optional<absl::Time> NextDue();
  // Emits all coalesced frames that are due.
  void FlushDue();
  // Emits all messages.
  void FlushAll();
  // Emits all messages, and uses `knobs` for later ones.
  void SetKnobs(const BatchingKnobs& knobs);
  // Drops all messages that wait for `host`, which is gone.
  void Drop(HostId host) { hosts_.erase(host); }
  size_t waiting_bytes(HostId to, bool critical) const;
  const BatchingCounters& counters() const { return counters_; }

 private:
  struct Host {
    FrameBuilder critical, coalesced;
    uint64_t opened = 0;  // number of the present coalesced frame; 0: there is none
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
  std::vector<HostId> critical_;  // hosts with critical messages, ordered by their first message
  std::deque<Due> due_;           // ascending, since the delay is always the same
  uint64_t next_opened_ = 1;
  BatchingCounters counters_;
};

}  // namespace pw::dataflow
