#include "pathways/controller/cluster/cluster_impl.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/cluster/observation/gang_report.h"
#include "pathways/controller/cluster/observation/program_report.h"
#include "pathways/controller/cluster_info.h"
#include "pathways/controller/metrics_page.h"

namespace pw::controller {

using ::pathways::v1::Command;
using ::pathways::v1::Event;

std::shared_ptr<ClusterImpl> ClusterImpl::Create(ClusterOptions options, const Environment& environment) {
  std::shared_ptr<ClusterImpl> cluster(new ClusterImpl(std::move(options), environment));
  std::weak_ptr<ClusterImpl> weak = cluster;
  cluster->strand_.SetIdleHook([weak] {
    if (auto self = weak.lock()) self->fabric_->Flush();
  });
  cluster->context_.emplace(weak, &cluster->options_, environment.clock, environment.timers, &cluster->strand_);
  cluster->MakeFabric();
  cluster->MakeSessions();
  cluster->MakeMembers();
  cluster->MakeStatus();
  cluster->ScheduleTick();
  return cluster;
}

ClusterImpl::ClusterImpl(ClusterOptions options, const Environment& environment)
    : options_(std::move(options)), strand_(environment.executor), started_(environment.clock->Now()) {}

// A queued task that will not run any more may hold a client's session, whose destructor needs all members.
ClusterImpl::~ClusterImpl() { strand_.DropQueued(); }

void ClusterImpl::MakeFabric() {
  const std::weak_ptr<ClusterImpl> weak = weak_from_this();
  fabric_ = std::make_unique<Fabric>(options_.limits, options_.gang, context_->clock(), [weak](Task task) {
    if (auto self = weak.lock()) self->strand_.Post(std::move(task));
  });
  fabric_->gangs().SetAfter([this](absl::Duration delay, Task task) { context_->After(delay, std::move(task)); });
  fabric_->set_sequential_dispatch(options_.sequential_dispatch);
  fabric_->losses().set_patience(options_.heartbeat_limit + tick());
  fabric_->set_make_key([this] { return options_.make_key(); });  // the source that all parts share
  fabric_->set_client_grace(options_.client_grace);
  housekeeping_ = std::make_unique<Housekeeping>(&fabric_->outbox(), &strand_, context_->clock(), context_->timers(),
                                                 [weak](HostId host, const absl::Status& why) {
                                                   if (auto self = weak.lock()) self->LoseHost(host, why);
                                                 });
  fabric_->SetDataflow(housekeeping_->runtime());
  housekeeping_->Configure(options_.host_config, nullptr);
  fabric_->SetCleanUp([weak](const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what) {
    if (auto self = weak.lock()) self->housekeeping_->CleanUp(hosts, what);
  });
  observation_ = std::make_unique<Observation>(options_, fabric_.get(), housekeeping_.get(), context_->clock());
  trace_ = std::make_unique<TraceRecording>(
      fabric_.get(), housekeeping_.get(),
      TraceRecording::Environment{&strand_, context_->timers(), context_->clock(), options_.wall_clock},
      [this] { return members_->hosts(); });
}

void ClusterImpl::MakeSessions() {
  sessions_ = std::make_unique<SessionRegistry>(fabric_.get(), context_->clock(), [weak = weak_from_this()](SessionId session) {
    if (auto self = weak.lock()) self->OnSessionEnded(session);
  });
  former_sessions_ =
      std::make_unique<FormerSessions>(*context_, fabric_.get(), sessions_.get(), [this](bool held) { slices_->SetHeld(held); });
  slices_ = std::make_unique<Slices>(fabric_.get(), options_.virtual_devices, context_->timers(), &strand_,
                                     [this](SessionId session) { return sessions_->Find(session); });
  client_sessions_ = std::make_unique<ClientSessions>(
      *context_, ClientSessions::Parts{fabric_.get(), housekeeping_.get(), observation_.get(), sessions_.get(), slices_.get()},
      [this] { return joiner_->CanServe(); });
}

void ClusterImpl::MakeMembers() {
  links_ = std::make_unique<PeerLinks>(*context_, static_cast<PeerLinks::Handler*>(this));
  worlds_ = std::make_unique<Worlds>(*context_, links_.get());
  reports_ = std::make_unique<GroupedReports>(fabric_.get(), &strand_, context_->timers());
  const auto name_of = [this](HostId host) { return members_->NameOf(host); };
  streams_ = std::make_unique<HostStreams>(
      *context_, links_.get(), observation_.get(),
      HostStreams::Events{[this](HostId host) { fabric_->OnBulkWritable(host); },
                          [this](HostId host, const absl::Status& why) { LoseHost(host, why); }, name_of});
  certificates_ = std::make_unique<HostCertificates>(options_.identity, [this](HostId host, Command command) {
    fabric_->outbox().Add(host, std::move(command));
  });
  members_ = std::make_unique<Membership>(
      *context_, Membership::Parts{fabric_.get(), housekeeping_.get(), reports_.get(), observation_.get(), sessions_.get()},
      [this] { slices_->TopologyChanged(); });
  joiner_ =
      std::make_unique<HostJoiner>(*context_, HostJoiner::Parts{fabric_.get(), observation_.get(), links_.get(), streams_.get(),
                                                                certificates_.get(), members_.get(), former_sessions_.get()});
  links_->set_incarnation(joiner_->incarnation());
  starved_ = std::make_unique<StarvedHosts>(&options_, [this](HostId host) { return members_->hello(host).pid(); }, name_of);
  heartbeats_ = std::make_unique<Heartbeats>(*context_, links_.get(), streams_.get(), starved_.get());
}

void ClusterImpl::MakeStatus() {
  StatusGatherer::Sources sources;
  sources.fill = [this](const StatusGatherer::User& user, StatusReport* report) { FillReport(user, report); };
  sources.is_of = [this](SessionId session, const std::string& user) { return client_sessions_->IsOf(session, user); };
  status_ = std::make_unique<StatusGatherer>(*context_, housekeeping_.get(), std::move(sources));
}

absl::StatusOr<std::string> ClusterImpl::Listen(net::Transport* transport, const std::string& address) {
  streams_->set_transport(transport);
  return links_->Listen(transport, address);
}

void ClusterImpl::Stop(std::string reason, bool stop_workers, Task stopped) {
  strand_.Post([weak = weak_from_this(), reason = std::move(reason), stop_workers, stopped = std::move(stopped)]() mutable {
    auto self = weak.lock();
    if (self == nullptr || std::exchange(self->stopped_, true)) return std::move(stopped)();
    self->observation_->StoreUsage(self->sessions_->All());
    self->client_sessions_->Stop();
    self->reports_->Stop();
    self->fabric_->Flush();
    self->fabric_->Disconnect();
    self->links_->Stop(reason, stop_workers);
    self->worlds_->Clear();
    self->streams_->Clear();
    self->members_->Clear();
    std::move(stopped)();
  });
}

// Returns the virtual devices for the client's slices to come, and the devices of empty seats, for when a host takes the seat.
std::shared_ptr<const SpareDevices> ClusterImpl::Spares(SessionId session) {
  auto spares = std::make_shared<SpareDevices>(*slices_->Spares(session));
  AddEmptySeats(fabric_->topology(), info()->platform_name, *spares);
  return spares;
}

void ClusterImpl::AddSlice(SessionId session, const resource::SliceRequest& request, ResultCallback<SliceState> done) {
  former_sessions_->WhenBack([this, session, request, done = std::move(done)]() mutable {
    if (sessions_->Find(session) == nullptr)
      return context_->Answer(absl::StatusOr<SliceState>(absl::CancelledError("the session has ended")), std::move(done));
    context_->Answer(AddSlice(session, request), std::move(done));
  });
}

absl::Status ClusterImpl::OnHostEvent(HostId host, const Event& event, Bytes payload) {
  switch (event.kind_case()) {
    case Event::kHostCall:
      sessions_->OnHostCall(host, event.host_call(), payload);
      break;
    case Event::kSharedVerified:
      fabric_->SetTakesShared(host);
      members_->Announce();
      break;
    case Event::kPublicKey:
      return certificates_->OnPublicKey(host, event.public_key().der());
    case Event::kHoldings:
      return fabric_->holdings().Add(host, event.holdings());
    case Event::kDataflow:
      housekeeping_->OnFrame(host, event.dataflow(), std::move(payload));
      break;
    case Event::kJoined:
      reports_->OnJoined(host, event.joined());
      break;
    default:
      return fabric_->OnEvent(host, event, std::move(payload));
  }
  return absl::OkStatus();
}

void ClusterImpl::CheckEpoch(uint64_t epoch, const std::string& where) {
  if (options_.epoch == 0 || epoch <= options_.epoch || std::exchange(replaced_, true)) return;
  const std::string why = absl::StrCat("another controller has taken the place of this one: ", where, " shows epoch ", epoch,
                                       ", later than ", options_.epoch, ". Hosts and programs belong to that one now");
  PW_LOG_ERROR << why;
  if (options_.on_replaced) options_.on_replaced(why);
}

bool ClusterImpl::Leaves(LinkId link, uint64_t epoch) {
  if (options_.epoch == 0 || epoch <= options_.epoch) return false;
  CheckEpoch(epoch, absl::StrCat("a worker at ", links_->connection(link)->peer()));
  links_->Close(link, absl::UnavailableError("the worker belongs to a later controller"));
  return true;
}

// The parts forget the host in this order: those whose use of it is visible first, then its stream, then the rest.
void ClusterImpl::LoseHost(HostId host, const absl::Status& reason) {
  if (!members_->Has(host)) return;
  const std::string island = members_->hello(host).island(), name = members_->hello(host).host_name();
  const absl::Time since = absl::IsDeadlineExceeded(reason) ? streams_->last_heard(host) : context_->Now();
  const std::optional<absl::Status> loss = members_->Lose(host, since, reason);
  if (!loss.has_value()) return;
  streams_->Remove(host, reason, *loss);
  certificates_->Forget(host);
  starved_->Forget(host);
  worlds_->OnHostLost(island, name, reason);
}

void ClusterImpl::OnSessionEnded(SessionId session) {
  slices_->EndSession(session);
  fabric_->holdings().Forget(session);
  client_sessions_->OnEnded(session);
  trace_->DropProfile(session);
}

void ClusterImpl::ScheduleTick() {
  context_->After(tick(), [this] {
    if (stopped_) return;
    Tick();
    ScheduleTick();
  });
}

void ClusterImpl::Tick() {
  const absl::Time now = context_->Now();
  const absl::Duration sleep = heartbeats_->OnTick(now);
  const bool slept = sleep > absl::ZeroDuration();
  if (options_.last_epoch) CheckEpoch(options_.last_epoch(), "the cluster's folder");
  links_->DropSlowStrangers(now);
  certificates_->OnTick(now);
  const std::vector<LinkId> silent = heartbeats_->Ping(now, slept);
  housekeeping_->WatchHealth();
  observation_->Tick(slept, sessions_->All());
  client_sessions_->ApplyQuotas();
  former_sessions_->OnTick();
  fabric_->gangs().recent().Tick(now);
  for (SessionImpl* session : sessions_->All()) session->OnTick(now, slept);
  for (LinkId link : silent) links_->OnSilent(link);
  streams_->OnTick(now, sleep);
  fabric_->losses().OnTick(now);
}

void ClusterImpl::OnAdminRequest(LinkId link, const identity::Caller& caller, const ::pathways::v1::AdminRequest& request) {
  auto answer = [this, link](absl::StatusOr<std::string> json) { links_->Answer(link, std::move(json)); };
  if (request.has_status())
    return GatherJson(caller.is_operator() ? std::nullopt : std::make_optional(caller.user), /*examine=*/true, std::move(answer));
  answer(absl::UnimplementedError(
      "this controller does not know this request: install the same release of pathways where it came from"));
}

void ClusterImpl::GatherJson(StatusGatherer::User user, bool examine, ResultCallback<std::string> done) {
  status_->Gather(std::move(user), examine,
                  [done = std::move(done)](absl::StatusOr<StatusReport> report) mutable { std::move(done)(ToJson(*report)); });
}

void ClusterImpl::GetMetrics(ResultCallback<std::string> done) {
  status_->Gather(
      std::nullopt, status_->examined_ago() >= kMetricsExamine,
      [done = std::move(done)](absl::StatusOr<StatusReport> report) mutable { std::move(done)(ToMetricsPage(*report)); });
}

std::string ClusterImpl::GetGangs(uint64_t after) {
  Gangs& gangs = fabric_->gangs();
  gangs.recent().Look(context_->Now());
  return ToJson(GangReport{gangs.NowNs(), after, gangs.recent().last(), gangs.recent().After(after), gangs.ListUnderway()});
}

std::string ClusterImpl::GetPrograms() const {
  constexpr size_t kMostPrograms = 32;
  std::vector<ProgramGraph> graphs;
  size_t more = 0;
  for (SessionImpl* session : sessions_->All()) {
    const auto hosts_of = [&](const std::vector<DeviceId>& devices) {
      std::vector<std::string> names;
      for (DeviceId device : session->PhysicalOf(devices)) {
        const auto host = fabric_->topology().GetHostOf(device);
        if (host.ok() && std::find(names.begin(), names.end(), (*host)->name) == names.end()) names.push_back((*host)->name);
      }
      return names;
    };
    session->programs().ForEach([&](Handle handle, const ProgramEntry& entry) {
      if (graphs.size() == kMostPrograms) {
        ++more;
        return;
      }
      graphs.push_back(GraphOf(*entry.typed, hosts_of));
      graphs.back().session = session->id();
      graphs.back().id = handle;
    });
  }
  std::sort(graphs.begin(), graphs.end(),
            [](const ProgramGraph& a, const ProgramGraph& b) { return std::pair(a.session, a.id) < std::pair(b.session, b.id); });
  return ToJson(graphs, more);
}

void ClusterImpl::FillReport(const StatusGatherer::User& user, StatusReport* report) const {
  report->version = options_.version;
  report->pid = getpid();
  report->uptime_seconds = absl::ToDoubleSeconds(context_->Now() - started_);
  report->workers_address = links_->address();
  report->policy = options_.gang.policy;
  report->granted = fabric_->gangs().scheduler().grants();
  report->translated_programs = fabric_->translated_programs();
  report->array_bytes = fabric_->array_bytes();
  joiner_->AddTo(report);
  members_->AddTo(report);
  streams_->AddTo(report);
  client_sessions_->AddTo(user, report);
  report->slices = slices_->Status();
  observation_->AddTo(report);
  if (user.has_value()) return;  // the rest is for operators
  if (!options_.list_certificates || !options_.wall_clock) return;
  for (const auto& [name, end] : options_.list_certificates())
    report->certificates[name] = absl::ToDoubleSeconds(end - options_.wall_clock());
}

}  // namespace pw::controller
