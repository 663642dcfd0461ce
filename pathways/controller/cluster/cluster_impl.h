// ClusterImpl: the controller. It makes the parts of the cluster, and passes each request of a client (Cluster) and each message of a
// worker (PeerLinks::Handler) to the part that owns it. Where an event concerns several parts, it has the order.
//
// The parts, by room. A part uses only parts above it, which it gets by its constructor:
//   - context/: ClusterContext (settings, clock, strand)
//   - observation/: Observation (events, hangs, usage), TraceRecording, GangReport
//   - clients/: SessionRegistry (open sessions, calls to their clients), UserQuotas, ClientSessions (opening within the quotas)
//   - links/: PeerLinks (connections of workers and operators, and who is let in)
//   - worlds/: Worlds (the worlds of device runtimes, and their key-value stores)
//   - members/: GroupedReports (completions that hosts report for others), HostStreams (hosts that are away), HostCertificates,
//     Membership (seats, losses), HostJoiner (forming, Welcome), StarvedHosts, Heartbeats
//   - status/: StatusGatherer
// Fabric, Housekeeping and Slices are below all of them. HostStreams, which is above Membership, loses hosts by a callback.
//
// All state is on one strand.
// Invariants:
//   CI-1  every method runs on the strand unless it says any thread
//   CI-2  a host is lost by LoseHost only, whichever part finds out, so no part keeps a lost host
//   CI-3  a worker that belongs to a later controller is not let in: this controller has been replaced, and says so once
// The executor must outlive the cluster. Timers and the transport must be stopped before the cluster is destroyed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/cluster/clients/client_sessions.h"
#include "pathways/controller/cluster/clients/former_sessions.h"
#include "pathways/controller/cluster/clients/session_registry.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/cluster/links/peer_links.h"
#include "pathways/controller/cluster/members/grouped_reports.h"
#include "pathways/controller/cluster/members/heartbeats.h"
#include "pathways/controller/cluster/members/host_certificates.h"
#include "pathways/controller/cluster/members/host_joiner.h"
#include "pathways/controller/cluster/members/host_streams.h"
#include "pathways/controller/cluster/members/membership.h"
#include "pathways/controller/cluster/members/starved_hosts.h"
#include "pathways/controller/cluster/observation/observation.h"
#include "pathways/controller/cluster/observation/trace_recording.h"
#include "pathways/controller/cluster/status/status_gatherer.h"
#include "pathways/controller/cluster/worlds/worlds.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/options.h"
#include "pathways/controller/session.h"
#include "pathways/controller/slices/slices.h"
#include "pathways/net/transport.h"

namespace pw::controller {

class ClusterImpl final : public Cluster, private PeerLinks::Handler, public std::enable_shared_from_this<ClusterImpl> {
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
  void WhenFormed(Task task) { joiner_->WhenFormed(std::move(task)); }

  void Post(absl::AnyInvocable<void() &&> task) override { strand_.Post(std::move(task)); }  // any thread
  std::shared_ptr<const ClusterInfo> info() const override { return members_->info(); }
  void OpenSession(session::NewSession session, ResultCallback<std::shared_ptr<Session>> done) override {
    client_sessions_->Open(std::move(session), std::move(done));
  }
  absl::Status CanRestore(SessionId session) override { return former_sessions_->CanRestore(session); }
  void SetHostCallHandler(SessionId session, std::shared_ptr<HostCallHandler> handler) override {
    sessions_->SetHostCallHandler(session, std::move(handler));
  }
  void SetAway(SessionId session, bool away) override { client_sessions_->SetAway(session, away); }
  void ChangeShare(SessionId session, const gang::ShareChange& change, ResultCallback<gang::Share> done) override {
    context_->Answer(sessions_->ChangeShare(session, change), std::move(done));
  }
  absl::Status CheckQuota(SessionId session, const gang::ShareChange& change) override {
    return client_sessions_->CheckQuota(session, change);
  }
  void OnQuotasChanged() override { client_sessions_->ApplyQuotas(); }
  std::vector<session::UserUse> Use() override { return client_sessions_->Use(); }
  std::shared_ptr<const SpareDevices> Spares(SessionId session) override;
  void AddSlice(SessionId session, const resource::SliceRequest& request, ResultCallback<SliceState> done) override;
  absl::Status RestoreSlices(SessionId session, const session::RestoredSlices& slices) override {
    return slices_->Restore(session, slices);
  }
  void AwaitSlice(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done) override {
    slices_->Await(session, slice, limit, std::move(done));
  }
  void ReleaseSlice(SessionId session, SliceId slice, session::StatusCallback done) override {
    context_->Answer(ReleaseSlice(session, slice), std::move(done));
  }
  void SuspendClient(SessionId session, bool resume, ResultCallback<SuspendReport> done) override {
    if (resume) return slices_->Resume(session, std::move(done));
    slices_->Suspend(session, std::move(done));
  }
  void DrainHost(const std::string& host, bool undo, ResultCallback<DrainReport> done) override {
    slices_->Drain(host, undo, std::move(done));
  }
  void GetStatus(ResultCallback<std::string> done) override { GatherJson(std::nullopt, /*examine=*/true, std::move(done)); }
  void GetStatusFor(const std::string& user, ResultCallback<std::string> done) override {
    GatherJson(user, /*examine=*/true, std::move(done));
  }
  // Answers the status as metrics for Prometheus (controller/metrics_page.h). The hosts examine their machines for it at most every kMetricsExamine.
  void GetMetrics(ResultCallback<std::string> done);
  // Answers the status for a page that asks every second: the hosts examine their machines for it every kPageExamines.
  void GetPageStatus(ResultCallback<std::string> done) {
    GatherJson(std::nullopt, status_->examined_ago() >= kPageExamines, std::move(done));
  }
  // Sets the listener for computations that hang (Observation::OnHang). On the strand.
  void OnHang(std::function<void(SessionId session, const std::string& text)> listener) {
    observation_->OnHang(std::move(listener));
  }
  // Returns the computations that have ended since record `after`, and those under way, as JSON (gang_report.h).
  std::string GetGangs(uint64_t after);
  // Returns the loaded programs of many nodes as JSON (program_report.h).
  std::string GetPrograms() const;
  void RecordTrace(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) override {
    trace_->Start(duration, max_events, std::move(done));
  }
  void StartProfile(SessionId session, const session::ProfileOptions& options, session::StatusCallback done) override {
    trace_->StartProfile(session, options, std::move(done));
  }
  void StopProfile(SessionId session, ResultCallback<session::ClusterProfile> done) override {
    trace_->StopProfile(session, std::move(done));
  }
  void ReadProfile(SessionId session, size_t host, uint64_t offset, ResultCallback<Bytes> done) override {
    trace_->ReadProfile(session, host, offset, std::move(done));
  }
  void DropProfile(SessionId session) override { trace_->DropProfile(session); }

  // The same operations, with the result returned at once, for callers on this strand. An observer's session opens even if no client's can.
  absl::StatusOr<std::shared_ptr<Session>> OpenSession(std::string description, bool observer = false) {
    return client_sessions_->OpenNow({std::move(description), {}, observer});
  }
  absl::StatusOr<SliceState> AddSlice(SessionId session, const resource::SliceRequest& request) {
    return slices_->Add(session, request);
  }
  absl::Status ReleaseSlice(SessionId session, SliceId slice) { return slices_->Release(session, slice); }

  // For tests, on the strand.
  Fabric& fabric() { return *fabric_; }
  const Housekeeping& housekeeping() const { return *housekeeping_; }
  absl::Duration tick() const { return options_.heartbeat_limit / 10; }
  bool formed() const { return joiner_->formed(); }
  const ReportGroups& report_groups() const { return reports_->report_groups(); }
  uint64_t frames_heard() const { return streams_->frames_heard(); }  // from the present hosts

 private:
  static constexpr absl::Duration kPageExamines = absl::Seconds(5);
  static constexpr absl::Duration kMetricsExamine = absl::Seconds(10);

  ClusterImpl(ClusterOptions options, const Environment& environment);
  // Make the parts, each after those that it uses.
  void MakeFabric();
  void MakeSessions();
  void MakeMembers();
  void MakeStatus();

  // -- PeerLinks::Handler
  void OnHello(LinkId link, const ::pathways::v1::Hello& hello) override {
    if (!Leaves(link, hello.epoch())) joiner_->OnHello(link, hello);
  }
  void OnResume(LinkId link, const ::pathways::v1::Resume& resume) override {
    if (!Leaves(link, resume.epoch())) streams_->OnResume(link, resume);
  }
  void OnAdminRequest(LinkId link, const identity::Caller& caller, const ::pathways::v1::AdminRequest& request) override;
  absl::Status OnHostFrame(HostId host, const ::pathways::v1::FromWorker& frame, size_t bytes) override {
    return streams_->OnFrame(host, frame, bytes);
  }
  absl::Status OnHostEvent(HostId host, const ::pathways::v1::Event& event, Bytes payload) override;
  void OnHostWritable(HostId host) override { fabric_->OnBulkWritable(host); }
  void OnHostBroken(HostId host, const absl::Status& reason) override {
    streams_->OnBroken(host, reason, heartbeats_->SleptUntil(context_->Now()));
  }
  void OnHostLost(HostId host, const absl::Status& reason) override { LoseHost(host, reason); }
  void OnPendingLeft(LinkId link, const absl::Status& reason) override { joiner_->OnPendingLeft(link, reason); }
  void OnRuntimeMessage(LinkId link, const ::pathways::v1::FromRuntime& message) override { worlds_->OnMessage(link, message); }
  void OnRuntimeLeft(LinkId link, const absl::Status& reason) override { worlds_->OnLeft(link, reason); }

  // Returns whether the epoch is that of a later controller. Then the worker that has shown it is left to that one.
  bool Leaves(LinkId link, uint64_t epoch);
  void CheckEpoch(uint64_t epoch, const std::string& where);
  void LoseHost(HostId host, const absl::Status& reason);
  void OnSessionEnded(SessionId session);
  void ScheduleTick();
  void Tick();
  void GatherJson(StatusGatherer::User user, bool examine, ResultCallback<std::string> done);
  void FillReport(const StatusGatherer::User& user, StatusReport* report) const;

  const ClusterOptions options_;
  Strand strand_;
  std::optional<const ClusterContext> context_;  // set by Create, as it refers to this
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Housekeeping> housekeeping_;  // after the fabric, whose outbox it uses
  std::unique_ptr<Observation> observation_;
  std::unique_ptr<TraceRecording> trace_;
  std::unique_ptr<SessionRegistry> sessions_;
  std::unique_ptr<FormerSessions> former_sessions_;
  std::unique_ptr<Slices> slices_;
  std::unique_ptr<ClientSessions> client_sessions_;
  std::unique_ptr<PeerLinks> links_;
  std::unique_ptr<Worlds> worlds_;
  std::unique_ptr<GroupedReports> reports_;
  std::unique_ptr<HostStreams> streams_;
  std::unique_ptr<HostCertificates> certificates_;
  std::unique_ptr<Membership> members_;
  std::unique_ptr<HostJoiner> joiner_;
  std::unique_ptr<StarvedHosts> starved_;
  std::unique_ptr<Heartbeats> heartbeats_;
  std::unique_ptr<StatusGatherer> status_;
  bool stopped_ = false;
  bool replaced_ = false;
  const absl::Time started_;
};

}  // namespace pw::controller
