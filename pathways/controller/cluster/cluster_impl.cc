#include "pathways/controller/cluster/cluster_impl.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/sha256.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/cluster/observation.h"
#include "pathways/controller/cluster_info.h"

namespace pw::controller {

using ::pathways::v1::Event;

namespace {

// Returns the machine of a client, by its description: "jax client at ADDRESS on MACHINE". Empty: it does not say.
std::string MachineOf(const std::string& description) {
  constexpr char kOn[] = " on ";
  const size_t at = description.rfind(kOn);
  return at == std::string::npos ? "" : description.substr(at + sizeof(kOn) - 1);
}

uint64_t NumberFrom(const std::string& key) {
  const std::string hash = Sha256(key);
  uint64_t number = 0;
  std::memcpy(&number, hash.data(), sizeof(number));
  return number;
}

}  // namespace

std::shared_ptr<ClusterImpl> ClusterImpl::Create(ClusterOptions options, const Environment& environment) {
  std::shared_ptr<ClusterImpl> cluster(new ClusterImpl(std::move(options), environment));
  std::weak_ptr<ClusterImpl> weak = cluster;
  cluster->strand_.SetIdleHook([weak] {
    if (auto self = weak.lock()) self->fabric_->Flush();
  });
  cluster->fabric_ =
      std::make_unique<Fabric>(cluster->options_.limits, cluster->options_.gang, environment.clock, [weak](Task task) {
        if (auto self = weak.lock()) self->strand_.Post(std::move(task));
      });
  cluster->fabric_->set_sequential_dispatch(cluster->options_.sequential_dispatch);
  cluster->fabric_->losses().set_patience(cluster->options_.heartbeat_limit + cluster->tick());
  cluster->fabric_->set_make_key(cluster->options_.make_key);
  cluster->fabric_->set_client_grace(cluster->options_.client_grace);
  cluster->sessions_ = std::make_unique<SessionRegistry>(cluster->fabric_.get(), environment.clock, [weak](SessionId session) {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->slices_->EndSession(session);
    self->observation_->OnSessionEnded(session);
    self->quotas_->OnEnded(session);
    self->Post([weak] {
      if (auto cluster = weak.lock()) cluster->ApplyQuotas();
    });
    if (session < kFirstObserver) self->observation_->Note("client left", absl::StrCat("client ", session.v), session);
  });
  cluster->slices_ =
      std::make_unique<Slices>(cluster->fabric_.get(), cluster->options_.virtual_devices, environment.timers, &cluster->strand_,
                               [sessions = cluster->sessions_.get()](SessionId session) { return sessions->Find(session); });
  cluster->housekeeping_ = std::make_unique<Housekeeping>(&cluster->fabric_->outbox(), &cluster->strand_, environment.clock,
                                                          environment.timers, [weak](HostId host, const absl::Status& why) {
                                                            auto self = weak.lock();
                                                            if (self == nullptr) return;
                                                            self->LoseHost(host, why);
                                                          });
  cluster->fabric_->SetDataflow(cluster->housekeeping_->runtime());
  cluster->housekeeping_->Configure(cluster->options_.host_config, nullptr);
  cluster->observation_ =
      std::make_unique<Observation>(cluster->options_, cluster->fabric_.get(), cluster->housekeeping_.get(), environment.clock);
  cluster->MakeQuotas();
  cluster->reports_ = std::make_unique<GroupedReports>(cluster->fabric_.get(), &cluster->strand_, environment.timers);
  cluster->trace_ =
      std::make_unique<TraceRecording>(cluster->fabric_.get(), cluster->housekeeping_.get(),
                                       TraceRecording::Environment{&cluster->strand_, environment.timers, environment.clock},
                                       [cluster = cluster.get()] { return SortedKeys(cluster->hosts_); });
  cluster->fabric_->SetCleanUp([weak](const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what) {
    if (auto self = weak.lock()) self->housekeeping_->CleanUp(hosts, what);
  });
  cluster->ScheduleTick();
  return cluster;
}

ClusterImpl::ClusterImpl(ClusterOptions options, const Environment& environment)
    : options_(std::move(options)),
      environment_(environment),
      strand_(environment.executor),
      probe_(options_.share_memory),
      started_(environment.clock->Now()),
      last_tick_(started_),
      incarnation_(NumberFrom(options_.make_key())) {}

// A queued task that will not run any more may hold a client's session, whose destructor needs all members.
ClusterImpl::~ClusterImpl() { strand_.DropQueued(); }

HostLink::PostToOwner ClusterImpl::PostToThis() {
  return [weak = weak_from_this()](absl::AnyInvocable<void(HostLink::Owner&)&&> call) {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->strand_.Post([weak, call = std::move(call)]() mutable {
      if (auto cluster = weak.lock()) std::move(call)(*cluster);
    });
  };
}

absl::StatusOr<std::string> ClusterImpl::Listen(net::Transport* transport, const std::string& address) {
  auto on_accept = [weak = weak_from_this()](std::unique_ptr<net::Connection> connection) {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->strand_.Post([weak, connection = std::move(connection)]() mutable {
      if (auto cluster = weak.lock()) cluster->AddConnection(std::move(connection));
    });
  };
  transport_ = transport;
  PW_ASSIGN_OR_RETURN(listener_, transport->Listen(address, std::move(on_accept)));
  return listener_->address();
}

void ClusterImpl::AddConnection(std::unique_ptr<net::Connection> connection) {
  if (stopped_) return;
  const LinkId id = next_link_++;
  Link& link = links_[id];
  link.link = std::make_unique<HostLink>(id, std::move(connection), PostToThis());
  link.last_heard = link.since = environment_.clock->Now();
  if (link.link->connection()->proof() == net::PeerProof::kOwn) {
    link.link->Trust();
  } else {
    if (std::optional<LinkId> oldest = strangers_.Add(id)) Refuse(*oldest, strangers_.TooMany());
  }
  link.link->Start();
}

void ClusterImpl::Trust(LinkId id) {
  strangers_.Remove(id);
  links_.at(id).link->Trust();
}

void ClusterImpl::DropSlowStrangers(absl::Time now) {
  for (auto oldest = strangers_.oldest(); oldest.has_value(); oldest = strangers_.oldest()) {
    if (now - links_.at(*oldest).since <= strangers_.kGreetingTime) return;
    Refuse(*oldest, strangers_.TooSlow());
  }
}

void ClusterImpl::OnWorkerMessage(LinkId id, ::pathways::v1::FromWorker message, std::vector<Bytes> payloads, size_t bytes) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  it->second.last_heard = environment_.clock->Now();
  if (it->second.state == LinkState::kHost && !CountFrame(id, message, bytes)) return;
  for (int i = 0; i < message.events_size(); ++i) {
    if (!OnEvent(id, message.events(i), std::move(payloads[i]))) return;
  }
}

bool ClusterImpl::CountFrame(LinkId id, const ::pathways::v1::FromWorker& message, size_t bytes) {
  const HostId host_id = links_.at(id).host;
  JoinedHost& host = hosts_.at(host_id);
  host.last_heard = environment_.clock->Now();
  if (message.has_received()) {
    const absl::Status status = host.stream->Acknowledge({message.received().urgent(), message.received().bulk()});
    if (!status.ok()) {
      EndLink(id, status);
      return false;
    }
    fabric_->OnBulkWritable(host_id);
  }
  if (!message.beside()) host.stream->Receive(message.bulk() ? net::Lane::kBulk : net::Lane::kUrgent, bytes);
  return true;
}

absl::Status ClusterImpl::CanServe() const {
  if (!formed_) {
    return absl::UnavailableError(absl::StrCat("the cluster has not formed yet: ", PendingLinks().size(), " of ",
                                               options_.expect_hosts,
                                               " hosts have joined. Start the missing workers, or try again in a moment."));
  }
  if (hosts_.empty())
    return absl::UnavailableError("the cluster has lost all its hosts: start workers that join it (pathways worker --join)");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> ClusterImpl::OpenNow(session::NewSession session) {
  if (stopped_) return absl::UnavailableError("the controller is stopping");
  const bool observer = session.observer;
  if (!observer) PW_RETURN_IF_ERROR(CanServe());  // operators ask at any time
  const std::string who = session.description;
  const std::string payer = session.user.empty() ? MachineOf(who) : session.user;
  auto opened = sessions_->Open(std::move(session));
  if (observer) return opened;
  observation_->Note("client connected", absl::StrCat("client ", opened->id().v, ": ", who), opened->id());
  observation_->CountUsage(opened->id(), payer);
  return opened;
}

void ClusterImpl::MakeQuotas() {
  identity::ClusterIdentity* const identity = options_.identity;
  UserQuotas::Environment environment;
  environment.quota_of = [identity](const std::string& user) {
    return identity == nullptr ? identity::Quota() : identity->quotas().Of(user);
  };
  environment.wall_clock = [identity] { return identity == nullptr ? absl::UnixEpoch() : identity->Now(); };
  quotas_ = std::make_unique<UserQuotas>(std::move(environment), options_.used_today);
  observation_->OnDeviceSeconds([this](SessionId session, double seconds) {
    if (const auto opened = sessions_->opened().find(session); opened != sessions_->opened().end())
      quotas_->CountDeviceSeconds(opened->second.session->about().user, seconds);
  });
}

void ClusterImpl::ApplyQuotas() {
  if (options_.identity == nullptr || stopped_) return;
  quotas_->Recheck();
  for (const auto& [id, opened] : sessions_->opened()) {
    if (opened.session->about().limited()) opened.session->RefuseComputations(quotas_->Spent(opened.session->about().user));
  }
}

absl::Status ClusterImpl::CheckQuota(SessionId session, const gang::ShareChange& change) {
  const SessionImpl* found = sessions_->Find(session);
  if (found == nullptr || !found->about().limited()) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const gang::Share share, gang::Changed(fabric_->gangs().ClientOf(session).share, change));
  return quotas_->CheckShare(found->about().user, share);
}

std::vector<session::UserUse> ClusterImpl::Use() {
  std::vector<session::UserUse> use;
  for (const std::string& user : quotas_->users()) use.push_back({user, quotas_->sessions(user), quotas_->device_seconds(user)});
  return use;
}

void ClusterImpl::OpenSession(session::NewSession session, ResultCallback<std::shared_ptr<Session>> done) {
  const absl::StatusOr<gang::Share> wanted = gang::Changed({}, session.share);
  if (!wanted.ok()) return Answer(absl::StatusOr<std::shared_ptr<Session>>(wanted.status()), std::move(done));
  if (!session.limited()) return OpenWithin(std::move(session), *wanted, std::move(done));
  const gang::Share share = quotas_->Lowered(session.user, *wanted);
  // The program runs with less, rather than not at all.
  if (share != *wanted && !session.share.empty() && session.tell)
    session.tell(std::string(quotas_->CheckShare(session.user, *wanted).message()));
  UserQuotas::Request request{session.user, session.description, session.client, std::move(session.tell), nullptr};
  request.open = [this, session = std::move(session), share, done = std::move(done)]() mutable {
    OpenWithin(std::move(session), share, std::move(done));
  };
  quotas_->Ask(std::move(request));
}

// Opens a session whose user has room for it.
void ClusterImpl::OpenWithin(session::NewSession session, const gang::Share& share,
                             ResultCallback<std::shared_ptr<Session>> done) {
  const std::string user = session.limited() ? session.user : "";
  absl::StatusOr<std::shared_ptr<Session>> opened = OpenNow(std::move(session));
  if (opened.ok() && share != gang::Share()) fabric_->gangs().SetShare((*opened)->id(), share);
  if (opened.ok() && !user.empty()) {
    quotas_->OnOpened((*opened)->id(), user);
    sessions_->Find((*opened)->id())->RefuseComputations(quotas_->Spent(user));
  }
  Answer(std::move(opened), std::move(done));
}

void ClusterImpl::SetAway(SessionId session, bool away) {
  const absl::Duration was_away = sessions_->SetAway(session, away);
  const std::string client = absl::StrCat("client ", session.v);
  if (away) return observation_->Note("client away", client, session);
  observation_->Note("client back",
                     absl::StrCat(client, ", away for ", absl::FormatDuration(absl::Trunc(was_away, absl::Milliseconds(1)))),
                     session);
}

// Returns the virtual devices for the client's slices to come, and the devices of empty seats, for when a host takes the seat.
std::shared_ptr<const SpareDevices> ClusterImpl::Spares(SessionId session) {
  auto spares = std::make_shared<SpareDevices>(*slices_->Spares(session));
  AddEmptySeats(fabric_->topology(), info_->platform_name, *spares);
  return spares;
}

bool ClusterImpl::OnEvent(LinkId id, const Event& event, Bytes payload) {
  auto it = links_.find(id);
  if (it == links_.end() || it->second.state == LinkState::kLeaving) return false;
  const bool is_host = it->second.state == LinkState::kHost;
  absl::Status status;
  if (event.has_hello() && it->second.state == LinkState::kNew) {
    OnHello(id, event.hello());
  } else if (event.has_resume() && it->second.state == LinkState::kNew) {
    OnResume(id, event.resume());
  } else if (event.has_goodbye()) {
    EndLink(id, absl::UnavailableError(absl::StrCat("its worker ended: ", event.goodbye().reason())));
  } else if (event.has_pong()) {
    // Only updates last_heard.
  } else if (is_host && event.has_host_call()) {
    sessions_->OnHostCall(it->second.host, event.host_call(), payload);
  } else if (is_host && event.has_shared_verified()) {
    fabric_->SetTakesShared(it->second.host);
    MembershipChanged();
  } else if (is_host && event.has_dataflow()) {
    housekeeping_->OnFrame(it->second.host, event.dataflow(), std::move(payload));
  } else if (is_host && event.has_joined()) {
    reports_->OnJoined(it->second.host, event.joined());
  } else if (is_host) {
    status = fabric_->OnEvent(it->second.host, event, std::move(payload));
  } else {
    status = absl::InvalidArgumentError("a worker's first message must be a hello, and it must send only one");
  }
  if (!status.ok()) EndLink(id, status);
  return true;
}

void ClusterImpl::OnLinkWritable(LinkId id) {
  auto it = links_.find(id);
  if (it != links_.end() && it->second.state == LinkState::kHost) fabric_->OnBulkWritable(it->second.host);
}

void ClusterImpl::OnLinkClosed(LinkId id, const absl::Status& reason) {
  const auto it = links_.find(id);
  if (it != links_.end() && it->second.state == LinkState::kHost) {
    OnBroken(id, reason);
  } else {
    EndLink(id, reason);
  }
  strangers_.Remove(id);
  links_.erase(id);
}

uint64_t ClusterImpl::frames_heard() const {
  uint64_t frames = 0;
  for (const auto& [id, host] : hosts_) frames += CountersOf(host).frames_received;
  return frames;
}

void ClusterImpl::Stop(std::string reason, bool stop_workers, Task stopped) {
  strand_.Post([weak = weak_from_this(), reason = std::move(reason), stop_workers, stopped = std::move(stopped)]() mutable {
    auto self = weak.lock();
    if (self == nullptr || std::exchange(self->stopped_, true)) return std::move(stopped)();
    self->observation_->StoreUsage(self->sessions_->All());
    self->listener_ = nullptr;
    self->reports_->Stop();
    self->fabric_->Flush();
    for (auto& [id, link] : self->links_) {
      if (stop_workers) {
        ::pathways::v1::ToWorker message;
        message.set_beside(true);
        message.add_commands()->mutable_shutdown()->set_reason(reason);
        link.link->connection()->Send(message.SerializeAsString());
      }
      link.link->connection()->Close(absl::CancelledError(reason));
    }
    self->fabric_->Disconnect();
    self->links_.clear();
    self->hosts_.clear();
    std::move(stopped)();
  });
}

}  // namespace pw::controller
