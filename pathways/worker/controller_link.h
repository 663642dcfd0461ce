// ControllerLink: the worker's connection to its controller. Joins the cluster, answers heartbeats, and joins again after the controller is
// lost.
//
//   connecting ──► greeting ──Welcome──► serving (a Worker exists) ──► lost: the Worker and all it holds are dropped ──►
//   connecting
//
// The connection's own thread answers pings, so that a long step on the strand does not look like a dead worker. After three heartbeat
// intervals of silence the controller counts as lost.
//
// Invariants:
//   CK-1  the strand's idle hook sends the events that the commands of a turn have produced
//   CK-2  a malformed frame ends the connection with a reason, never the process
//   CK-3  nothing is started after `finished` has been called
// Lives on the worker's strand. The connection's thread only posts to the strand and answers pings.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/base/strand.h"
#include "pathways/base/timer_queue.h"
#include "pathways/net/shared_memory.h"
#include "pathways/net/tls.h"
#include "pathways/net/transport.h"
#include "pathways/worker/worker.h"

namespace pw::worker {

struct LinkOptions {
  std::string controller;  // address
  std::string host_name;
  std::string island;
  std::string data_address;  // where peers connect
  std::string lane_address;  // where clients connect; empty: they cannot
  int64_t pid = 0;
  std::string token;  // join token, if the controller requires one
  std::shared_ptr<net::Tls> tls = nullptr;  // of the transports: shows the certificate that the controller makes for this host; null: TLS is off
  bool exit_with_controller = false;
  bool share_memory = true;                            // with processes of the same machine, if possible
  absl::Duration connect_timeout = absl::Seconds(10);  // of one attempt; attempts are repeated
  absl::Duration retry_delay = absl::Milliseconds(500);
  absl::Duration greeting_timeout = absl::Seconds(30);
};

class ControllerLink {
 public:
  // Called when the link has ended for good; the status gives the reason and decides the exit status.
  using Finished = std::function<void(const absl::Status&)>;

  // All members of `environment`, `strand` (the strand that it names) and `timers` must outlive this. Construct before anything is posted
  // to the strand.
  ControllerLink(const Environment& environment, Strand* strand, Timers* timers, LinkOptions options, Finished finished);
  ~ControllerLink();

  // The next five may be called from any thread.
  void Start();
  void AcceptPeer(std::unique_ptr<net::Connection> connection);
  void AcceptLane(std::unique_ptr<net::Connection> connection);
  // Calls `done` on the strand with this host's metrics for Prometheus (metrics_page.h); never after the link has been destroyed.
  void GetMetrics(absl::AnyInvocable<void(std::string) &&> done);
  // Drops everything, says goodbye, and calls `stopped` on the strand. Nothing runs afterwards.
  void Stop(std::string reason, Task stopped);

  // For tests, on the strand.
  int64_t arrays() const { return worker_ == nullptr ? 0 : worker_->arrays(); }
  size_t programs() const { return worker_ == nullptr ? 0 : worker_->programs(); }
  uint64_t configuration() const { return worker_ == nullptr ? 0 : worker_->configuration(); }

 private:
  class Handler;

  void Connect();
  void Connected(absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void Handle(uint64_t connection, const pathways::v1::ToWorker& batch, const Bytes& payload);
  void HandleLinkCommand(const pathways::v1::Command& command);
  void Welcomed(const pathways::v1::Welcome& welcome);
  absl::Status ShowCertificate(const std::string& chain);
  void Watch(uint64_t connection);
  void Lost(uint64_t connection, const absl::Status& reason);
  void Reconnect();
  void Finish(const absl::Status& status);
  void Drop();
  pathways::v1::FromWorker Hello() const;

  const Environment environment_;
  Strand* const strand_;
  Timers* const timers_;
  const LinkOptions options_;
  std::string key_pem_;     // this host's private key; empty: it needs no certificate
  const net::Probe probe_;  // the controller opens it to learn whether it can open our shared memory
  Finished finished_;
  uint64_t generation_ = 0;  // identifies the current connection
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<net::Connection> connection_;
  std::unique_ptr<Worker> worker_;
  std::vector<std::unique_ptr<net::Connection>> early_peers_;  // accepted before Welcome was read
  absl::Duration silence_limit_;
  bool complained_ = false;  // whether an unreachable controller has been logged
  bool stopped_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::worker
