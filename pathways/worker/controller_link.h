// ControllerLink: the worker's connection to its controller. It joins the cluster, answers heartbeats, makes a broken connection
// again, and joins the next controller when this one has ended.
//
//   connecting ──► greeting ──Welcome──► serving (a Worker exists) ──► broken ──► connecting ──► asking ──Resumed──► serving
//                                              │                         │ └─ in vain, or GivenUp by this controller ──► the Worker is dropped,
//                                              │                         │                                               and it joins anew
//                                              └─ cannot be made again ──┴─ GivenUp by another one ──► orphaned ──► connecting ──► greeting
//                                                                                                         └─ in vain ──► the Worker is dropped
//
// A connection can be made again if Welcome had a key (worker.proto). So a controller that was stopped or cut off finds its
// arrays again. The worker gives up if the controller does not keep this host (GivenUp), or if more than kMostKeptBytes of frames
// wait. It also gives up if no process has listened at the controller's address for the grace time of controllers that Welcome said, and
// at least for kRefusedFor: the controller has ended, and no other one has come. At the latest it gives up after kPatience, or the
// controller's grace for hosts if that is longer.
//
// Orphans. The controller has ended if another one answers at its address, or if the connection cannot be made again, as that over a Unix
// socket. Then the Worker is an orphan for the grace time: it keeps all it holds, its devices finish their launches, its Python processes
// the calls that have begun, and nobody hears of that. It says Hello to another controller only when they have finished, or half of the
// grace time is over: what has begun can then be told from what has not, which that controller sends again. The Welcome replaces the orphan
// by a new Worker. This one gets the compiled programs, and the arrays and Python processes of the sessions that Welcome names
// (store/holdings.h, python/functions.h); the others are freed. Device runtimes may still have messages of launches that a controller has
// numbered which has ended, so the next one numbers from where Hello says.
//
// The connection's own thread answers pings, so that a long step on the strand does not look like a dead worker. The controller
// counts as lost after three heartbeat intervals of silence. A connection that can be made again is given up after three quarters
// of that: another one may get through before the controller misses this host.
//
// Invariants:
//   CK-1  the strand's idle hook sends the events that the commands of a turn have produced
//   CK-2  a malformed frame ends the connection with a reason, never the process
//   CK-3  nothing is started after `finished` has been called
//   CK-4  a frame of the controller takes effect once, in order, even if connections break (net/resumable/resumable_link.h)
//   CK-5  while it has the Worker of one controller, and for the grace time after that, no earlier controller is obeyed (Welcome.epoch)
//   CK-6  an orphan takes no commands and sends nothing
// Lives on the worker's strand. The connection's thread only posts to the strand and answers pings.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/net/resumable/attempts.h"
#include "pathways/net/resumable/resumable_link.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/tls/tls.h"
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
  std::shared_ptr<net::Tls> tls =
      nullptr;  // of the transports: shows the certificate that the controller makes for this host; null: TLS is off
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

  static constexpr absl::Duration kRefusedFor = absl::Seconds(4);
  static constexpr absl::Duration kAnswerTime = absl::Seconds(10);  // for the answer to Resume
  static constexpr absl::Duration kPatience = absl::Minutes(10);
  static constexpr size_t kMostKeptBytes = size_t{256} << 20;  // of frames that wait for a connection

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
  int64_t charged_bytes() const { return worker_ == nullptr ? 0 : worker_->charged_bytes(); }
  int64_t had_names() const { return worker_ == nullptr ? 0 : worker_->had_names(); }
  size_t programs() const { return worker_ == nullptr ? 0 : worker_->programs(); }
  uint64_t configuration() const { return worker_ == nullptr ? 0 : worker_->configuration(); }

 private:
  class Handler;

  void Connect();
  void Connected(absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void Handle(uint64_t connection, const pathways::v1::ToWorker& batch, const Bytes& payload, size_t bytes);
  absl::Status Count(const pathways::v1::ToWorker& batch, size_t bytes);
  void HandleLinkCommand(const pathways::v1::Command& command);
  void Welcomed(const pathways::v1::Welcome& welcome);
  void MakeWorker(const pathways::v1::Welcome& welcome, Holdings* holdings, std::shared_ptr<Functions::Kept> python_processes);
  absl::Status ShowCertificate(const std::string& chain);
  void ShowNewKey();
  void Watch(uint64_t connection, absl::Time due);
  void Lost(uint64_t connection, const absl::Status& reason);
  // -- the connection of a Worker is broken
  bool resuming() const { return serves() && connection_ == nullptr; }
  void Unreachable(const absl::Status& reason);
  pathways::v1::FromWorker Resume() const;
  void Resumed(const pathways::v1::Resumed& resumed);
  // Drops the Worker, and joins again, as a new host.
  void StartOver(absl::string_view why);
  void GivenUp(const pathways::v1::GivenUp& answer);
  // -- the controller of a Worker has ended
  // Returns whether there is a Worker, and its controller has not ended.
  bool serves() const { return worker_ != nullptr && !orphaned_; }
  // Makes the Worker an orphan if the controller has a grace time; else as StartOver. Connects again after `pause`.
  void BecomeOrphan(absl::string_view why, absl::Duration pause);
  void GraceIsOver();
  void ForgetAfterGrace();
  void DropWorker();
  void Reconnect(absl::Duration pause);
  void Finish(const absl::Status& status);
  void Drop();
  void DropConnection();
  pathways::v1::FromWorker Hello() const;

  const Environment environment_;
  Strand* const strand_;
  Timers* const timers_;
  const LinkOptions options_;
  std::string key_pem_;       // this host's private key; empty: it needs no certificate
  std::string next_key_pem_;  // shown to the controller, which has not certified it yet; empty: none
  const net::Probe probe_;  // the controller opens it to learn whether it can open our shared memory
  Finished finished_;
  uint64_t generation_ = 0;  // identifies the current connection
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<net::ResumableLink> stream_;  // of the Worker; outlives the connection, whose handler reads it
  std::unique_ptr<net::Connection> connection_;
  uint32_t host_ = 0;  // as Welcome says, like the next six
  std::string key_;
  absl::Duration patience_;
  uint64_t incarnation_ = 0;
  uint64_t epoch_ = 0;  // 0: forgotten
  absl::Duration controller_grace_;
  pathways::v1::Place place_;
  std::unique_ptr<Worker> worker_;
  bool orphaned_ = false;  // its controller has ended
  absl::Time orphaned_since_;
  KeptProgramsRef kept_;                                       // of the Workers before; null once the grace time is over
  uint64_t last_launch_ = 0;                                   // of the Workers before
  uint64_t forgetting_ = 0;                                    // identifies the grace time that counts
  std::vector<std::unique_ptr<net::Connection>> early_peers_;  // accepted before Welcome was read
  bool asking_ = false;                                        // Resume has not been answered
  struct EarlyFrame {
    pathways::v1::ToWorker batch;
    Bytes payload;
    size_t bytes;
  };
  std::vector<EarlyFrame> early_frames_;  // of the bulk lane, ahead of the answer to Resume; few (RL-3)
  absl::Time broken_since_, attempt_began_;
  absl::Time refused_since_ = absl::InfiniteFuture();  // no process has listened there since then
  net::Attempts attempts_;
  absl::Duration silence_limit_, silence_limit_served_;
  bool complained_ = false;  // whether an unreachable controller has been logged
  bool stopped_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::worker
