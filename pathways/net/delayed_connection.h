// A connection that takes as long as a network would, around one that does not: for simulated hosts, in real time.
//
// An Uplink is what a host sends through, whomever it sends to: frames leave it one after another, each takes its size over the
// bandwidth, and arrives a latency later. Only what is sent is delayed, and a close overtakes it.
//
// Invariants:
//   DC-1  frames arrive in the order of Send, whatever their lane and whatever the timers do
//   DC-2  no frame arrives before its time; on a busy machine it may be late
// What waits on the link counts for nothing in CanSendBulk: it is the memory of the sender, who has it anyway.
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/base/strand.h"
#include "pathways/base/timer_queue.h"
#include "pathways/net/transport.h"

namespace pw::net {

class Uplink {
 public:
  // 0 bytes a second: their number takes no time.
  Uplink(Clock* clock, absl::Duration latency, double bytes_per_second)
      : clock_(clock), latency_(latency), bytes_per_second_(bytes_per_second) {}

  bool takes_no_time() const { return latency_ <= absl::ZeroDuration() && bytes_per_second_ <= 0; }
  // How long from now what is sent now takes to arrive.
  absl::Duration Take(size_t bytes);

 private:
  Clock* const clock_;
  const absl::Duration latency_;
  const double bytes_per_second_;
  std::mutex mu_;
  absl::Time free_ = absl::InfinitePast();  // guarded by mu_
};

class DelayedConnection : public Connection {
 public:
  // Timers and executor outlive it.
  DelayedConnection(std::unique_ptr<Connection> inner, std::shared_ptr<Uplink> uplink, Timers* timers, Executor* executor);
  ~DelayedConnection() override;

  void Start(Handler* handler) override;
  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override;
  bool CanSendBulk() const override;
  void Close(absl::Status reason) override;
  Counters counters() const override;
  const std::string& peer() const override { return peer_; }

 private:
  struct State;

  const std::string peer_;
  const std::shared_ptr<Uplink> uplink_;
  Timers* const timers_;
  Executor* const executor_;
  const std::shared_ptr<State> state_;
};

}  // namespace pw::net
