// PeerLinks: the connections to the controller's address for workers, from workers, their device runtimes and operators. It lets
// peers in, and passes on the messages that the state of their link allows.
//
// States. A link is new until its peer's first message. A worker's Hello or Resume goes to the Handler, which makes the link wait
// for the cluster (SetPending), makes it the link of a host (SetHost), or ends it. A JoinWorld makes it the link of a device runtime
// (world.proto), which it stays until it ends. A link that was ended is "leaving" until its connection has closed; messages that
// still come on it are dropped.
//
// Letting in. A worker shows a certificate or a join token, an operator a token (identity/cluster_identity.h); processes of the
// controller's own user need neither. Until then a peer is a stranger: it has little time, and may send small frames only
// (net/strangers.h, HL-3).
//
// Invariants:
//   LI-1  the handler gets a Hello, Resume, JoinWorld or AdminRequest only from a peer that was let in, and the first three only on a
//         new link
//   LI-2  the handler gets events and frames of a host only from a link that it made the host's, until that link ends
//   LI-3  the end of a host's link is reported once, by OnHostLost or OnHostBroken, unless the handler ended it
//   LI-4  the handler gets other messages of a device runtime only on the link of one, and the end of that link once, by OnRuntimeLeft,
//         unless the handler ended it. It must answer on the bulk lane: a device runtime that asks on without reading is ended
// Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/hosts/host_link.h"
#include "pathways/identity/role.h"
#include "pathways/net/strangers.h"
#include "pathways/net/transport.h"
#include "pathways/v1/admin.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/v1/world.pb.h"

namespace pw::controller {

class PeerLinks final : private HostLink::Owner {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnHello(LinkId link, const ::pathways::v1::Hello& hello) = 0;
    virtual void OnResume(LinkId link, const ::pathways::v1::Resume& resume) = 0;
    // Answered by Answer. The link is leaving already.
    virtual void OnAdminRequest(LinkId link, const identity::Caller& caller, const ::pathways::v1::AdminRequest& request) = 0;
    // A frame of a host, before its events. The host is lost if these two return an error. `bytes`: the size of the frame.
    virtual absl::Status OnHostFrame(HostId host, const ::pathways::v1::FromWorker& frame, size_t bytes) = 0;
    virtual absl::Status OnHostEvent(HostId host, const ::pathways::v1::Event& event, Bytes payload) = 0;
    virtual void OnHostWritable(HostId host) = 0;
    // The connection of a host is closed or silent. The handler ends the link.
    virtual void OnHostBroken(HostId host, const absl::Status& reason) = 0;
    // The worker has ended or sent an invalid message. The handler ends the link.
    virtual void OnHostLost(HostId host, const absl::Status& reason) = 0;
    virtual void OnPendingLeft(LinkId link, const absl::Status& reason) = 0;
    virtual void OnRuntimeMessage(LinkId link, const ::pathways::v1::FromRuntime& message) = 0;
    virtual void OnRuntimeLeft(LinkId link, const absl::Status& reason) = 0;
  };
  // A link as heartbeats see it.
  struct Peer {
    LinkId link;
    std::optional<HostId> host;  // in state kHost
    bool waits;                  // in state kPending or kRuntime
    bool own_machine;            // it is a process of this machine and user
    absl::Time last_heard;
  };

  PeerLinks(ClusterContext context, Handler* handler) : context_(std::move(context)), handler_(handler) {}

  // Sets Welcome.incarnation, by which a worker knows whose GivenUp it reads. Call it before Listen.
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }
  // Returns the address with the actual port. Call it once, before anything else, on the thread that created this.
  absl::StatusOr<std::string> Listen(net::Transport* transport, const std::string& address);
  std::string address() const { return listener_ == nullptr ? "" : listener_->address(); }  // empty: it does not listen
  // Closes all connections, and accepts no more. Tells the workers to stop if `stop_workers`.
  void Stop(const std::string& reason, bool stop_workers);

  void SetPending(LinkId link) { links_.at(link).state = State::kPending; }
  void SetHost(LinkId link, HostId host);

  // Sends a message beside the streams of hosts (net/resumable/resumable_link.h).
  void Send(LinkId link, ::pathways::v1::ToWorker message);
  // Ends the link and tells the worker why, so that it exits instead of trying again. Strangers that were too many or too slow are
  // not told: their next attempt may succeed.
  void Refuse(LinkId link, const absl::Status& reason);
  // Ends the link and tells the worker that its host is not kept, or not any more.
  void GiveUp(LinkId link, const std::string& reason);
  // Ends the link without a word.
  void Close(LinkId link, const absl::Status& reason);
  // Answers an AdminRequest, unless its peer has gone.
  void Answer(LinkId link, absl::StatusOr<std::string> json);

  // Handles a link on which nothing was heard for the heartbeat limit.
  void OnSilent(LinkId link);
  void DropSlowStrangers(absl::Time now);
  // Counts the silence of all peers from now on: this process was stopped.
  void Forgive(absl::Time now);

  std::vector<Peer> Peers() const;
  net::Connection* connection(LinkId link) const { return links_.at(link).link->connection(); }
  absl::Time last_heard(LinkId link) const { return links_.at(link).last_heard; }

 private:
  static constexpr size_t kMostUnread = 10'000;

  enum class State { kNew, kPending, kHost, kRuntime, kLeaving };
  struct Link {
    std::unique_ptr<HostLink> link;
    State state = State::kNew;
    HostId host;  // in state kHost
    absl::Time last_heard;
    absl::Time since;
    size_t unread = 0;  // in state kRuntime: the requests that came while it did not read the answers to earlier ones
  };

  void OnWorkerMessage(LinkId id, ::pathways::v1::FromWorker message, std::vector<Bytes> payloads, size_t bytes) override;
  void OnAdminRequest(LinkId id, ::pathways::v1::AdminRequest request) override;
  void OnRuntimeMessage(LinkId id, ::pathways::v1::FromRuntime message) override;
  void OnLinkWritable(LinkId id) override;
  void OnLinkClosed(LinkId id, const absl::Status& reason) override;

  void Add(std::unique_ptr<net::Connection> connection);
  HostLink::PostToOwner PostToThis();
  // Lets the worker at the other end in, or refuses it and returns false.
  bool LetIn(LinkId id, const std::string& token);
  void Trust(LinkId id);
  // Returns false if the link is closed or closing: the caller then drops the rest of the message.
  bool OnEvent(LinkId id, const ::pathways::v1::Event& event, Bytes payload);
  // Ends a link whose peer is gone or at fault.
  void End(LinkId id, const absl::Status& reason);
  void Break(LinkId id, const absl::Status& reason);

  const ClusterContext context_;
  Handler* const handler_;
  uint64_t incarnation_ = 0;
  std::unique_ptr<net::Listener> listener_;
  LinkId next_link_ = 1;
  std::map<LinkId, Link> links_;
  net::Strangers<LinkId> strangers_;
  bool stopped_ = false;
};

}  // namespace pw::controller
