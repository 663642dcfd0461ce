// ClusterImpl: the controller. Admits workers and detects their loss, opens and ends sessions; all of its state lives on one strand.
//
// Forming. The cluster forms when expect_hosts workers have joined: all of them are numbered at once, in the order of their names (TO-3),
// and welcomed. A worker that joins later takes the seat of one that was lost, if its devices fit (TO-7); the open
// sessions use it under the ids that they know. Else it gets the next numbers, and sessions that open after that see its devices.
//
// Losing. A host is lost for good when its connection closes, when it says goodbye, when it sends an invalid message, or when it is silent
// for longer than heartbeat_limit. Arrays with a shard on the host become errors that name it, operations that wait for the host fail, and
// the other hosts are told. Sessions go on. A worker that returns is a new host in the old seat; the arrays stay lost.
//
// Files:
//   - cluster_impl.cc: lifetime, links
//   - cluster_membership.cc: joining, losing, heartbeats
//   - cluster_status.cc: status, requests of operators
// It hands the rest to parts, which know each other only by what they are given: SessionRegistry (sessions, calls to their clients),
// GroupedReports (completions that hosts report for others), TraceRecording, Housekeeping and Slices.
//
// Invariants:
//   CI-1  every method runs on the strand unless it says any thread
//   CI-2  tasks and callbacks that outlive the cluster do nothing
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
#include "pathways/base/clock.h"
#include "pathways/base/strand.h"
#include "pathways/base/timer_queue.h"
#include "pathways/controller/cluster/grouped_reports.h"
#include "pathways/controller/cluster/session_registry.h"
#include "pathways/controller/cluster/trace_recording.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/hosts/host_link.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/options.h"
#include "pathways/controller/session.h"
#include "pathways/controller/slices/slices.h"
#include "pathways/controller/status_report.h"
#include "pathways/net/shared_memory.h"
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
  // Returns the same as metrics for Prometheus (controller/metrics_page.h): for operators.
  void GetMetrics(ResultCallback<std::string> done);
  // Returns the status without what hosts would have to examine their machines for: for a page that asks every second.
  void GetPageStatus(ResultCallback<std::string> done);
  // Returns the computations that have ended since record `after`, and those under way, as JSON (gang_report.h): for operators.
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
  const Speakers& speakers() const { return reports_->speakers(); }
  uint64_t frames_heard() const;  // from the present hosts

 private:
  enum class LinkState { kNew, kPending, kHost, kLeaving };
  struct Link {
    std::unique_ptr<HostLink> link;
    LinkState state = LinkState::kNew;
    HostId host;
    ::pathways::v1::Hello hello;
    absl::Time last_heard;
    absl::Time since;
    absl::Time certified;  // when the host's certificate was made
  };

  ClusterImpl(ClusterOptions options, const Environment& environment);
  absl::StatusOr<std::shared_ptr<Session>> OpenNow(session::NewSession session);
  // Runs `done` in a task of its own, never inside the call.
  template <class T, class Callback>
  void Answer(T value, Callback done) {
    Post([value = std::move(value), done = std::move(done)]() mutable { std::move(done)(std::move(value)); });
  }

  // -- cluster_impl.cc
  void AddConnection(std::unique_ptr<net::Connection> connection);
  void OnWorkerMessage(LinkId id, ::pathways::v1::FromWorker message, std::vector<Bytes> payloads) override;
  void OnAdminRequest(LinkId id, ::pathways::v1::AdminRequest request) override;
  void OnLinkWritable(LinkId id) override;
  void OnLinkClosed(LinkId id, const absl::Status& reason) override;
  // Returns UNAVAILABLE while the cluster has no hosts to serve clients with.
  absl::Status CanServe() const;
  // Returns false if the link is closed or closing: the caller then drops the rest of the message.
  bool OnEvent(LinkId id, const ::pathways::v1::Event& event, Bytes payload);
  HostLink::PostToOwner PostToThis();

  // A link whose peer has not been let in has kGreetingTime, and there are at most kMostStrangers: one more, and the oldest is dropped.
  static constexpr absl::Duration kGreetingTime = absl::Seconds(5);
  static constexpr size_t kMostStrangers = 64;
  static constexpr absl::Duration kRenewCertificates = absl::Hours(24);
  absl::Status AdmitWorker(const Link& link, const std::string& token);
  void Trust(LinkId id);
  void DropSlowStrangers(absl::Time now);
  // Certifies a host's key and notes when. Returns the chain; empty: the host wants none, or there is no authority.
  std::string Certify(Link& link);
  // Sends hosts another certificate, long before the one that they have ends.
  void RenewCertificates(absl::Time now);

  // -- cluster_membership.cc
  void OnHello(LinkId id, const ::pathways::v1::Hello& hello);
  void Refuse(LinkId id, const absl::Status& reason);
  std::vector<LinkId> PendingLinks() const;  // in the order of their connections
  void Form();
  void Admit(LinkId id, HostId host);
  void TakeSeat(HostId host);  // tells the sessions, if its devices are those of a host that was lost
  void MembershipChanged();    // tells the other hosts, and updates what clients see
  void LoseHost(LinkId id, const absl::Status& reason);
  absl::Status LossError(const resource::Host& host, absl::Time since, const absl::Status& reason) const;
  std::string platform() const;
  void ScheduleTick();
  void Tick();

  // -- cluster_status.cc
  absl::StatusOr<identity::Caller> AdmitAsker(const Link& link, const std::string& token) const;
  // `user`: leaves out all clients but this user's; none: has all.
  void GatherStatus(std::optional<std::string> user, ResultCallback<std::string> done);
  // `examine`: whether the hosts examine their machines for it, too.
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
  std::unique_ptr<SessionRegistry> sessions_;
  std::unique_ptr<Slices> slices_;
  std::unique_ptr<net::Listener> listener_;
  LinkId next_link_ = 1;
  std::map<LinkId, Link> links_;
  std::map<HostId, LinkId> hosts_;
  std::shared_ptr<const ClusterInfo> info_ = std::make_shared<const ClusterInfo>();
  bool formed_ = false;
  std::vector<Task> when_formed_;
  bool stopped_ = false;
  absl::Time started_;
  absl::Time last_tick_;
  uint64_t next_ping_ = 1;
  std::deque<LinkId> strangers_;  // links that have not been let in, the oldest first
  const uint64_t incarnation_;    // identifies this run; hosts show it to each other, and nobody else can guess it
};

}  // namespace pw::controller
