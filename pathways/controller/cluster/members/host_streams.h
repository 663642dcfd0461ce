// HostStreams: the streams of commands and events between the controller and the present hosts. A stream outlives its connections
// (net/resumable/resumable_link.h).
//
// Away. A connection may break while the worker lives. Then the host keeps all that it has for host_grace since it was last
// heard, so that its worker can resume on another connection (worker.proto, Resume). Commands to it wait meanwhile, and clients
// see a pause. The host is lost when that time is over, or when too much waits for it. It is lost, too, when its process has ended
// (process_probe.h) or another one listens at its address. If the worker may not have received its Welcome, the host is lost with
// the connection: the worker has no key to prove who it is.
//
// It decides that a host is lost, but forgets the host only when Remove is called.
//
// Invariants:
//   HR-1  a host that is not away has one link, which PeerLinks has as the host's; a later connection replaces an earlier one
//   HR-2  a worker resumes as a host only with the key of that host's Welcome. If the host was given up, the worker is told so
//   HR-3  frames of the stream are counted once, on whichever connection they come
// Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/cluster/links/peer_links.h"
#include "pathways/controller/cluster/members/given_up_hosts.h"
#include "pathways/controller/cluster/members/process_probe.h"
#include "pathways/controller/cluster/observation/observation.h"
#include "pathways/controller/status_report.h"
#include "pathways/net/resumable/resumable_link.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class HostStreams {
 public:
  struct Events {
    std::function<void(HostId)> on_writable;                   // bulk frames may be sent
    std::function<void(HostId, const absl::Status&)> on_lost;  // calls Remove
    std::function<std::string(HostId)> name_of;                // for the log and for operators
  };

  // The pointers must outlive this.
  HostStreams(ClusterContext context, PeerLinks* links, Observation* observation, Events events);

  // Sets the transport on which workers are probed. Call it before hosts join.
  void set_transport(net::Transport* transport) { probe_.set_transport(transport); }

  // Begins the stream of a host that joins by this link. Returns the sink of its commands, which is valid until Remove.
  net::FrameSink* Add(HostId host, LinkId link, const ::pathways::v1::Hello& hello);
  // Returns the secret with which the worker may resume; empty: it cannot.
  const std::string& key(HostId host) const { return hosts_.at(host).key; }
  // Ends the stream of a lost host. A worker that could resume is told `loss`, now or when it comes. `reason`: of the loss.
  void Remove(HostId host, const absl::Status& reason, const absl::Status& loss);
  // Forgets all hosts, whose links have ended.
  void Clear() { hosts_.clear(); }

  // Counts a frame of the host, and takes its acknowledgements. Returns an error if they are wrong.
  absl::Status OnFrame(HostId host, const ::pathways::v1::FromWorker& frame, size_t bytes);
  // Handles a host's broken connection: keeps the host without one, or loses it. `slept`: this process was stopped until now.
  void OnBroken(HostId host, const absl::Status& reason, bool slept);
  void OnResume(LinkId link, const ::pathways::v1::Resume& resume);
  // Gives up hosts that have been away for too long. `slept`: for how long this process was stopped.
  void OnTick(absl::Time now, absl::Duration slept);
  // Loses a host that is away at the address of a new worker: its process has ended.
  void LosePredecessor(const std::string& data_address);
  // Counts the silence of the hosts that are not away from now on: this process was stopped.
  void Forgive(absl::Time now);

  // Returns the numbers of frames that the host has sent, if it may have to know; none: its stream cannot be resumed.
  std::optional<net::ResumableLink::Counts> received(HostId host) const;
  absl::Time last_heard(HostId host) const { return hosts_.at(host).last_heard; }
  uint64_t frames_heard() const;  // from the present hosts
  void AddTo(StatusReport* report) const;

 private:
  struct Host {
    std::unique_ptr<net::ResumableLink> stream;
    LinkId link = 0;           // 0: it is away
    std::string data_address;  // for other workers
    std::string own_end;       // of the connection, as the worker's machine names it
    std::string key;
    absl::Time last_heard;
    net::Counters earlier;  // of its connections before this one
    // While it is away:
    absl::Time away_since, kept_until;
    absl::Status broken;   // why the connection broke
    uint64_t absence = 0;  // how often it has been away
  };

  net::Counters CountersOf(const Host& host) const;
  void Probe(HostId id);
  // Replaces the host's connection by that of `link`.
  void Reconnect(HostId id, LinkId link, const ::pathways::v1::Resume& resume);
  std::string NotKept(const ::pathways::v1::Resume& resume) const;

  const ClusterContext context_;
  PeerLinks* const links_;
  Observation* const observation_;
  const Events events_;
  std::map<HostId, Host> hosts_;
  GivenUpHosts given_up_;
  ProcessProbe probe_;
};

}  // namespace pw::controller
