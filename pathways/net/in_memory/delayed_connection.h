// DelayedConnection: adds the latency and bandwidth of a network to another connection, for simulated hosts in real time.
//
// An Uplink is one host's link to the network; all connections of the host share it. Frames leave it one after another. Each frame
// occupies the link for its size over the bandwidth, and arrives one latency later. Only sends are delayed: a close overtakes them.
//
// Invariants:
//   DC-1  frames arrive in the order of Send, on any lanes and even if timers fire late
//   DC-2  no frame arrives early; on a busy machine it may arrive late
// Frames that wait on the link do not count in CanSendBulk: the sender holds their memory anyway.
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/net/transport.h"

namespace pw::net {

class Uplink {
 public:
  // A bandwidth of 0 means unlimited.
  Uplink(Clock* clock, absl::Duration latency, double bytes_per_second)
      : clock_(clock), latency_(latency), bytes_per_second_(bytes_per_second) {}

  bool takes_no_time() const { return latency_ <= absl::ZeroDuration() && bytes_per_second_ <= 0; }
  // Occupies the link for `bytes` and returns the time from now until they arrive.
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
  // `timers` and `executor` outlive the connection.
  DelayedConnection(std::unique_ptr<Connection> inner, std::shared_ptr<Uplink> uplink, Timers* timers, Executor* executor);
  ~DelayedConnection() override;

  void Start(Handler* handler) override;
  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override;
  bool CanSendBulk() const override;
  void Close(absl::Status reason) override;
  Counters counters() const override;
  const std::string& peer() const override { return peer_; }
  PeerProof proof() const override { return proof_; }

 private:
  struct State;

  const std::string peer_;
  const PeerProof proof_;
  const std::shared_ptr<Uplink> uplink_;
  Timers* const timers_;
  Executor* const executor_;
  const std::shared_ptr<State> state_;
};

}  // namespace pw::net
