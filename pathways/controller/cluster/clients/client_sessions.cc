#include "pathways/controller/cluster/clients/client_sessions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {

namespace {

// Returns the machine of a client, by its description: "jax client at ADDRESS on MACHINE". Empty: it does not say.
std::string MachineOf(const std::string& description) {
  constexpr char kOn[] = " on ";
  const size_t at = description.rfind(kOn);
  return at == std::string::npos ? "" : description.substr(at + sizeof(kOn) - 1);
}

UserQuotas::Environment QuotasOf(identity::ClusterIdentity* identity, const Slices* slices) {
  UserQuotas::Environment environment;
  environment.quota_of = [identity](const std::string& user) {
    return identity == nullptr ? identity::Quota() : identity->quotas().Of(user);
  };
  environment.wall_clock = [identity] { return identity == nullptr ? absl::UnixEpoch() : identity->Now(); };
  environment.slice_devices = [slices](SessionId session) { return slices->DevicesOf(session); };
  return environment;
}

}  // namespace

ClientSessions::ClientSessions(ClusterContext context, const Parts& parts, std::function<absl::Status()> can_serve)
    : context_(std::move(context)),
      fabric_(parts.fabric),
      housekeeping_(parts.housekeeping),
      observation_(parts.observation),
      registry_(parts.registry),
      slices_(parts.slices),
      can_serve_(std::move(can_serve)),
      quotas_(QuotasOf(context_.options().identity, slices_), context_.options().used_today) {
  observation_->OnDeviceSeconds([this](SessionId session, double seconds) { quotas_.CountDeviceSeconds(session, seconds); });
  slices_->SetQuotas([this](SessionId session, int64_t devices) { return quotas_.RoomFor(session, devices); });
}

absl::StatusOr<std::shared_ptr<Session>> ClientSessions::OpenNow(session::NewSession session) {
  if (stopped_) return absl::UnavailableError("the controller is stopping");
  const bool observer = session.observer;
  if (!observer) PW_RETURN_IF_ERROR(can_serve_());  // operators ask at any time
  const bool restored = session.restored != 0;
  const std::string who = session.description;
  const std::string payer = session.user.empty() ? MachineOf(who) : session.user;
  auto opened = registry_->Open(std::move(session));
  if (observer) return opened;
  observation_->Note(restored ? "client restored" : "client connected", absl::StrCat("client ", opened->id().v, ": ", who),
                     opened->id());
  observation_->CountUsage(opened->id(), payer);
  return opened;
}

void ClientSessions::Open(session::NewSession session, ResultCallback<std::shared_ptr<Session>> done) {
  const absl::StatusOr<gang::Share> wanted = gang::Changed({}, session.share);
  if (!wanted.ok()) return context_.Answer(absl::StatusOr<std::shared_ptr<Session>>(wanted.status()), std::move(done));
  if (!session.limited() || session.restored != 0) return OpenWithin(std::move(session), *wanted, std::move(done));
  const gang::Share share = quotas_.Lowered(session.user, *wanted);
  // The program runs with less, rather than not at all.
  if (share != *wanted && !session.share.empty() && session.tell)
    session.tell(std::string(quotas_.CheckShare(session.user, *wanted).message()));
  UserQuotas::Request request{session.user, session.description, session.client, std::move(session.tell), nullptr};
  request.open = [this, session = std::move(session), share, done = std::move(done)]() mutable {
    OpenWithin(std::move(session), share, std::move(done));
  };
  quotas_.Ask(std::move(request));
}

void ClientSessions::OpenWithin(session::NewSession session, const gang::Share& share,
                                ResultCallback<std::shared_ptr<Session>> done) {
  const std::string user = session.limited() ? session.user : "";
  absl::StatusOr<std::shared_ptr<Session>> opened = OpenNow(std::move(session));
  if (opened.ok() && share != gang::Share()) fabric_->gangs().SetShare((*opened)->id(), share);
  if (opened.ok() && !user.empty()) {
    const SessionId id = (*opened)->id();
    quotas_.OnOpened(id, user);
    SessionImpl* const session = registry_->Find(id);
    session->RefuseComputations(quotas_.Spent(user));
    session->SetMayUse([this, id](const std::vector<DeviceId>& devices) { return quotas_.UseDevices(id, devices); });
  }
  TellHosts([context = context_, opened = std::move(opened), done = std::move(done)]() mutable {
    context.Answer(std::move(opened), std::move(done));
  });
}

void ClientSessions::TellHosts(absl::AnyInvocable<void() &&> told) {
  const identity::ClusterIdentity* identity = context_.options().identity;
  if (identity == nullptr) return std::move(told)();
  std::map<std::string, ::pathways::v1::HostConfig::Account> by_user;
  for (const SessionImpl* session : registry_->All()) {
    if (!session->about().limited()) continue;
    const std::string& user = session->about().user;
    const identity::Quota quota = identity->quotas().Of(user);
    if (!quota.device_memory.has_value() && !quota.host_memory.has_value() && !quota.host_processes.has_value()) continue;
    ::pathways::v1::HostConfig::Account& account = by_user[user];
    account.set_user(user);
    account.add_sessions(session->id().v);
    if (quota.device_memory.has_value()) account.set_device_bytes(*quota.device_memory);
    if (quota.host_memory.has_value()) account.set_host_bytes(*quota.host_memory);
    if (quota.host_processes.has_value()) account.set_python_processes(*quota.host_processes);
  }
  std::vector<::pathways::v1::HostConfig::Account> accounts;
  for (auto& [user, account] : by_user) accounts.push_back(std::move(account));
  housekeeping_->SetAccounts(accounts, std::move(told));
}

void ClientSessions::SetAway(SessionId session, bool away) {
  const absl::Duration was_away = registry_->SetAway(session, away);
  const std::string client = absl::StrCat("client ", session.v);
  if (away) return observation_->Note("client away", client, session);
  observation_->Note("client back",
                     absl::StrCat(client, ", away for ", absl::FormatDuration(absl::Trunc(was_away, absl::Milliseconds(1)))),
                     session);
}

void ClientSessions::OnEnded(SessionId session) {
  observation_->OnSessionEnded(session);
  quotas_.OnEnded(session);
  context_.Post([this] { ApplyQuotas(); });
  if (session < kFirstObserver) observation_->Note("client left", absl::StrCat("client ", session.v), session);
}

void ClientSessions::ApplyQuotas() {
  if (context_.options().identity == nullptr || stopped_) return;
  quotas_.Recheck();
  slices_->Recheck();
  TellHosts([] {});
  for (SessionImpl* session : registry_->All()) {
    if (session->about().limited()) session->RefuseComputations(quotas_.Spent(session->about().user));
  }
}

absl::Status ClientSessions::CheckQuota(SessionId session, const gang::ShareChange& change) {
  const SessionImpl* found = registry_->Find(session);
  if (found == nullptr || !found->about().limited()) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const gang::Share share, gang::Changed(fabric_->gangs().ClientOf(session).share, change));
  return quotas_.CheckShare(found->about().user, share);
}

std::vector<session::UserUse> ClientSessions::Use() {
  std::vector<session::UserUse> use;
  std::map<std::string, ::pathways::v1::HealthReport::UserUse> most;  // as hosts have reported
  for (const auto& [host, health] : housekeeping_->health()) {
    for (const auto& on_host : health.report.users()) {
      auto& found = most[on_host.user()];
      found.set_device_bytes(std::max(found.device_bytes(), on_host.device_bytes()));
      found.set_host_bytes(std::max(found.host_bytes(), on_host.host_bytes()));
      found.set_python_processes(std::max(found.python_processes(), on_host.python_processes()));
    }
  }
  for (const std::string& user : quotas_.users()) {
    use.push_back({user, quotas_.sessions(user), quotas_.device_seconds(user), quotas_.devices(user)});
    const auto reported = most.find(user);
    if (reported == most.end()) continue;
    use.back().device_bytes = reported->second.device_bytes();
    use.back().host_bytes = reported->second.host_bytes();
    use.back().host_processes = reported->second.python_processes();
  }
  return use;
}

void ClientSessions::AddTo(const std::optional<std::string>& user, StatusReport* report) const {
  const absl::Time now = context_.Now();
  for (const auto& [id, opened] : registry_->opened()) {
    if (opened.observer || (user.has_value() && opened.session->about().user != *user)) continue;
    const SessionImpl& s = *opened.session;
    report->clients.push_back(
        {id, s.about().description, s.about().user, absl::ToDoubleSeconds(now - opened.since),
         static_cast<int64_t>(s.num_arrays()), s.live_bytes(), s.host_buffers().bytes(),
         s.host_buffers().admission().peak_bytes(), static_cast<int64_t>(s.host_buffers().admission().waiting()),
         s.host_buffers().admission().held_back(), static_cast<int64_t>(s.num_executables()), fabric_->gangs().ClientOf(id)});
    if (opened.away_since.has_value()) report->clients.back().seconds_away = absl::ToDoubleSeconds(now - *opened.away_since);
  }
  for (UserQuotas::Queued& queued : quotas_.queue()) {
    if (!user.has_value() || queued.user == *user)
      report->waiting_clients.push_back({std::move(queued.description), queued.user, queued.position, std::move(queued.why)});
  }
}

bool ClientSessions::IsOf(SessionId session, const std::string& user) const {
  const SessionImpl* found = registry_->Find(session);
  return found != nullptr && found->about().user == user;
}

}  // namespace pw::controller
