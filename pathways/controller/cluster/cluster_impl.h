// ClusterImpl: the controller. It admits workers, detects their loss, opens and ends sessions. All its state is on one strand.
//
// Forming. The cluster forms when expect_hosts workers have joined: it numbers all of them at once, in the order of their names
// (TO-3), and welcomes them. A later worker takes the seat of a lost one if its devices fit (TO-7); the open sessions use these
// devices under the ids that they know. Otherwise it gets the next numbers, and only later sessions see its devices.
//
// Losing. A host is lost for good when its worker says goodbye, sends an invalid message, has ended, or is silent for longer than
// heartbeat_limit and host_grace. A host on the controller's machine that is silent because it waits for a processor is kept for
// kStarved times heartbeat_limit. Arrays with a shard on it become errors that name it, operations that wait for it fail, and the
// other hosts are told. Sessions go on. A worker that returns is a new host in the old seat; the arrays stay lost.
//
// Away. A connection may break while the worker lives. Then the host keeps all that it has for host_grace since it was last
// heard, so that its worker can resume on another connection (worker.proto, Resume). Commands to it wait meanwhile
// (net/resumable/resumable_link.h), and clients see a pause. A killed process looks the same at first, so the controller connects
// to the worker's address for other workers: if no process listens there, the worker has ended. If the worker may not have
// received its Welcome, the host is lost at once: the worker has no key to prove who it is.
//
// Files:
//   - cluster_impl.cc: lifetime, links
//   - cluster_membership.cc: joining, losing, heartbeats
//   - cluster_away.cc: hosts whose connections have broken
//   - cluster_status.cc: status, requests of operators
// Other classes do the rest: SessionRegistry (sessions, calls to their clients), GroupedReports (completions that hosts report
// for others), UserQuotas, Observation (events, hangs, usage), TraceRecording, Housekeeping and Slices.
//
// Invariants:
//   CI-1  every method runs on the strand unless it says any thread
//   CI-2  tasks and callbacks that outlive the cluster do nothing
//   CI-3  a host has at most one link in state kHost, and that link is JoinedHost::link; a later connection replaces an earlier one
//   CI-4  a worker resumes as a host only with the key of that host's Welcome. If the host was given up, the worker is told so
// The executor must outlive the cluster. Timers and the transport must be stopped before the cluster is destroyed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/cluster/grouped_reports.h"
#include "pathways/controller/cluster/session_registry.h"
#include "pathways/controller/cluster/trace_recording.h"
#include "pathways/controller/cluster/user_quotas.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/hosts/host_link.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/options.h"
#include "pathways/controller/session.h"
#include "pathways/controller/slices/slices.h"
#include "pathways/controller/status_report.h"
#include "pathways/net/resumable/resumable_link.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/strangers.h"
#include "pathways/net/transport.h"

namespace pw::controller {

class Observation;

class ClusterImpl final : public Cluster, private HostLink::Owner, public std::enable_shared_from_this<ClusterImpl> {
 public:
  struct Environment {
    Executor* executor;
    Timers* timers;
    Clock* clock;
  };
  static std::shared_ptr<ClusterImpl> Create(ClusterOptions options, const Environment& environment);
  ~ClusterImpl() override;

  // Accepts workers and operators. Returns the address with the actual port. Call it once, before anything else, on the thread that created
  // this.
  absl::StatusOr<std::string> Listen(net::Transport* transport, const std::string& address);
  // Ends the cluster: tells the workers to stop if `stop_workers`, closes all connections, then runs `stopped` on the strand. Any thread.
  void Stop(std::string reason, bool stop_workers, Task stopped);

  // Runs `task` on the strand once the cluster has formed. Any thread.
  void WhenFormed(Task task);

  void Post(absl::AnyInvocable<void() &&> task) override { strand_.Post(std::move(task)); }  // any thread
  std::shared_ptr<const ClusterInfo> info() const override { return info_; }
  void OpenSession(session::NewSession session, ResultCallback<std::shared_ptr<Session>> done) override;
  void SetHostCallHandler(SessionId session, std::shared_ptr<HostCallHandler> handler) override {
    sessions_->SetHostCallHandler(session, std::move(handler));
  }
  void SetAway(SessionId session, bool away) override;
  void ChangeShare(SessionId session, const gang::ShareChange& change, ResultCallback<gang::Share> done) override {
    Answer(sessions_->ChangeShare(session, change), std::move(done));
  }
  absl::Status CheckQuota(SessionId session, const gang::ShareChange& change) override;
  void OnQuotasChanged() override { ApplyQuotas(); }
  std::vector<session::UserUse> Use() override;
  std::shared_ptr<const SpareDevices> Spares(SessionId session) override;
  void AddSlice(SessionId session, const resource::SliceRequest& request, ResultCallback<SliceState> done) override {
    Answer(AddSlice(session, request), std::move(done));
  }
  void AwaitSlice(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done) override {
    slices_->Await(session, slice, limit, std::move(done));
  }
  void ReleaseSlice(SessionId session, SliceId slice, session::StatusCallback done) override {
    Answer(ReleaseSlice(session, slice), std::move(done));
  }
  void SuspendClient(SessionId session, bool resume, ResultCallback<SuspendReport> done) override {
    if (resume) return slices_->Resume(session, std::move(done));
    slices_->Suspend(session, std::move(done));
  }
  void DrainHost(const std::string& host, bool undo, ResultCallback<DrainReport> done) override {
    slices_->Drain(host, undo, std::move(done));
  }
  void GetStatus(ResultCallback<std::string> done) override { GatherStatus(std::nullopt, std::move(done)); }
  void GetStatusFor(const std::string& user, ResultCallback<std::string> done) override { GatherStatus(user, std::move(done)); }
  // Answers the status as metrics for Prometheus (controller/metrics_page.h).
  void GetMetrics(ResultCallback<std::string> done);
  // Answers the status without examining the machines of the hosts: for a page that asks every second.
  void GetPageStatus(ResultCallback<std::string> done);
  // Returns the computations that have ended since record `after`, and those under way, as JSON (gang_report.h).
  std::string GetGangs(uint64_t after);
  void RecordTrace(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) override {
    trace_->Start(duration, max_events, std::move(done));
  }

  // The same operations, with the result returned at once, for callers on this strand. An observer's session opens even if no client's can.
  absl::StatusOr<std::shared_ptr<Session>> OpenSession(std::string description, bool observer = false) {
    return OpenNow({std::move(description), {}, observer});
  }
  absl::StatusOr<SliceState> AddSlice(SessionId session, const resource::SliceRequest& request) {
    return slices_->Add(session, request);
  }
  absl::Status ReleaseSlice(SessionId session, SliceId slice) { return slices_->Release(session, slice); }

  // For tests, on the strand.
  Fabric& fabric() { return *fabric_; }
  const Housekeeping& housekeeping() const { return *housekeeping_; }
  absl::Duration tick() const { return options_.heartbeat_limit / 10; }
  bool formed() const { return formed_; }
  const ReportGroups& report_groups() const { return reports_->report_groups(); }
  uint64_t frames_heard() const;  // from the present hosts

 private:
  enum class LinkState { kNew, kPending, kHost, kLeaving };
  struct Link {
    std::unique_ptr<HostLink> link;
    LinkState state = LinkState::kNew;
    HostId host;                  // in state kHost
    ::pathways::v1::Hello hello;  // in state kPending
    absl::Time last_heard;
    absl::Time since;
  };
  struct JoinedHost {
    ::pathways::v1::Hello hello;
    std::unique_ptr<net::ResumableLink> stream;
    LinkId link = 0;      // 0: it is away
    std::string own_end;  // of the connection, as the worker's machine names it
    std::string key;      // the worker shows it to resume; empty: it cannot
    absl::Time last_heard;
    absl::Time certified;  // when its certificate was made
    // While it is silent, on this machine (ClusterOptions::watch_process):
    std::function<bool(absl::Time)> watch;
    absl::Time starved;     // when it was last seen to wait for a processor
    net::Counters earlier;  // of its connections before this one
    // While it is away:
    absl::Time away_since, kept_until;
    absl::Status broken;   // why the connection broke
    uint64_t absence = 0;  // how often it has been away
  };
  struct GivenUpHost {
    HostId host;
    std::string key;
    std::string reason;
  };

  ClusterImpl(ClusterOptions options, const Environment& environment);
  absl::StatusOr<std::shared_ptr<Session>> OpenNow(session::NewSession session);
  // Runs `done` in a task of its own, never inside the call.
  template <class T, class Callback>
  void Answer(T value, Callback done) {
    Post([value = std::move(value), done = std::move(done)]() mutable { std::move(done)(std::move(value)); });
  }

  // -- cluster_impl.cc
  void MakeQuotas();
  // Opens sessions that waited for a quota, and refuses the computations of users who have used up theirs.
  void ApplyQuotas();
  void OpenWithin(session::NewSession session, const gang::Share& share, ResultCallback<std::shared_ptr<Session>> done);
  void AddConnection(std::unique_ptr<net::Connection> connection);
  void OnWorkerMessage(LinkId id, ::pathways::v1::FromWorker message, std::vector<Bytes> payloads, size_t bytes) override;
  // Counts a frame of a host's stream, and takes its acknowledgements. Returns false if the link is closing.
  bool CountFrame(LinkId id, const ::pathways::v1::FromWorker& message, size_t bytes);
  void OnAdminRequest(LinkId id, ::pathways::v1::AdminRequest request) override;
  void OnLinkWritable(LinkId id) override;
  void OnLinkClosed(LinkId id, const absl::Status& reason) override;
  // Returns UNAVAILABLE while the cluster has no hosts to serve clients with.
  absl::Status CanServe() const;
  // Returns false if the link is closed or closing: the caller then drops the rest of the message.
  bool OnEvent(LinkId id, const ::pathways::v1::Event& event, Bytes payload);
  HostLink::PostToOwner PostToThis();

  static constexpr absl::Duration kRenewCertificates = absl::Hours(24);
  absl::Status AdmitWorker(const Link& link, const std::string& token);
  void Trust(LinkId id);
  void DropSlowStrangers(absl::Time now);
  // Certifies a host's key and notes when. Returns the chain; empty: the host wants none, or there is no authority.
  std::string Certify(JoinedHost& host);
  // Sends hosts new certificates, long before the old ones expire.
  void RenewCertificates(absl::Time now);

  // -- cluster_membership.cc
  void OnHello(LinkId id, const ::pathways::v1::Hello& hello);
  void Refuse(LinkId id, const absl::Status& reason);
  std::vector<LinkId> PendingLinks() const;  // in the order of their connections
  void Form();
  void Admit(LinkId id, HostId host);
  void TakeSeat(HostId host);  // tells the sessions, if its devices are those of a host that was lost
  void MembershipChanged();    // tells the other hosts, and updates what clients see
  // Ends a link whose peer is gone or at fault. If the peer is a host, the host is lost.
  void EndLink(LinkId id, const absl::Status& reason);
  void LoseHost(HostId id, const absl::Status& reason);
  absl::Status LossError(const resource::Host& host, absl::Time since, const absl::Status& reason) const;
  std::string platform() const;
  void ScheduleTick();
  void Tick();
  // Returns whether this process was stopped until now. Then silence is not the hosts' fault.
  bool SleptUntil(absl::Time now) const { return now - last_tick_ > options_.heartbeat_limit / 2; }
  static constexpr int kStarved = 6;
  // Returns whether the host on this link is silent because it waits for a processor. Call it once a tick while the host is silent.
  bool Starved(Link& link, absl::Time now);
  // Pings the peers. Returns the links that were silent for too long. `slept`: this process was stopped; silence does not count.
  std::vector<LinkId> PingLinks(absl::Time now, bool slept);

  // -- cluster_away.cc
  static constexpr size_t kMostGivenUp = 1000;
  // Handles a host's broken connection: keeps the host without one, or loses it.
  void OnBroken(LinkId id, const absl::Status& reason);
  // Handles a link on which nothing was heard for the heartbeat limit.
  void OnSilent(LinkId id);
  // Finds out whether the process of a host that is away has ended.
  void ProbeProcess(HostId host);
  void OnProbed(HostId host, uint64_t absence, const absl::Status& connected);
  void OnResume(LinkId id, const ::pathways::v1::Resume& resume);
  // Tells a worker that its host is not kept, or not any more, and closes the link.
  void GiveUp(LinkId id, const std::string& reason);
  std::string NotKept(const ::pathways::v1::Resume& resume) const;
  // Gives up hosts that have been away for too long. `slept`: for how long this process was stopped.
  void WatchAway(absl::Time now, absl::Duration slept);
  // Loses a host that is away at the address of this new worker: its process has ended.
  void LosePredecessor(const ::pathways::v1::Hello& hello);
  net::Counters CountersOf(const JoinedHost& host) const;

  // -- cluster_status.cc
  absl::StatusOr<identity::Caller> AdmitAsker(const Link& link, const std::string& token) const;
  // `user`: lists only this user's clients; none: all clients.
  void GatherStatus(std::optional<std::string> user, ResultCallback<std::string> done);
  // `examine`: the hosts examine their machines for it, too.
  void GetReport(std::optional<std::string> user, bool examine, ResultCallback<StatusReport> done);
  struct Answers;  // of the hosts, to a request for the status
  StatusReport MakeReport(const std::optional<std::string>& user, const Answers& answers);
  void HideOthers(const std::string& user, StatusReport* report) const;

  const ClusterOptions options_;
  const Environment environment_;
  Strand strand_;
  const net::Probe probe_;  // hosts find out with it whether they share a machine with the controller
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Housekeeping> housekeeping_;  // after the fabric, whose outbox it uses
  std::unique_ptr<GroupedReports> reports_;
  std::unique_ptr<Observation> observation_;
  std::unique_ptr<TraceRecording> trace_;
  std::unique_ptr<UserQuotas> quotas_;
  std::unique_ptr<SessionRegistry> sessions_;
  std::unique_ptr<Slices> slices_;
  std::unique_ptr<net::Listener> listener_;
  LinkId next_link_ = 1;
  std::map<LinkId, Link> links_;
  std::map<HostId, JoinedHost> hosts_;
  std::deque<GivenUpHost> given_up_;     // the oldest first
  net::Transport* transport_ = nullptr;  // set by Listen
  std::shared_ptr<const ClusterInfo> info_ = std::make_shared<const ClusterInfo>();
  bool formed_ = false;
  std::vector<Task> when_formed_;
  bool stopped_ = false;
  absl::Time started_;
  absl::Time last_tick_;
  uint64_t next_ping_ = 1;
  net::Strangers<LinkId> strangers_;
  const uint64_t incarnation_;  // identifies this run; hosts show it to each other, and no other process can guess it
};

}  // namespace pw::controller
