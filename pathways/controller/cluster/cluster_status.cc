// The status report, and requests of operators.
#include <unistd.h>

#include <utility>

#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/controller/cluster/gang_report.h"
#include "pathways/controller/cluster/observation.h"
#include "pathways/controller/metrics_page.h"
#include "pathways/controller/status_report.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::Command;

namespace {

// Returns by how much, at least, a host's clock is ahead of this machine's; negative: behind. The host read it between `asked`
// and `heard`.
double ClockAhead(const ::pathways::v1::Examination& host, absl::Time asked, absl::Time heard) {
  const absl::Time read = absl::FromUnixNanos(host.wall_clock_nanoseconds());
  if (read > heard) return absl::ToDoubleSeconds(read - heard);
  return read < asked ? absl::ToDoubleSeconds(read - asked) : 0;
}

}  // namespace

absl::StatusOr<identity::Caller> ClusterImpl::AdmitAsker(const Link& link, const std::string& token) const {
  const net::PeerProof proof = link.link->connection()->proof();
  if (proof == net::PeerProof::kWorker) return identity::Caller{"", identity::Role::kWorker};
  return options_.identity == nullptr ? identity::AdmitWithoutTokens(proof) : options_.identity->AdmitClient(proof, token);
}

void ClusterImpl::GatherStatus(std::optional<std::string> user, ResultCallback<std::string> done) {
  GetReport(std::move(user), true,
            [done = std::move(done)](absl::StatusOr<StatusReport> report) mutable { std::move(done)(ToJson(*report)); });
}

void ClusterImpl::GetMetrics(ResultCallback<std::string> done) {
  GetReport(std::nullopt, false,
            [done = std::move(done)](absl::StatusOr<StatusReport> report) mutable { std::move(done)(ToMetricsPage(*report)); });
}

void ClusterImpl::GetPageStatus(ResultCallback<std::string> done) {
  GetReport(std::nullopt, false,
            [done = std::move(done)](absl::StatusOr<StatusReport> report) mutable { std::move(done)(ToJson(*report)); });
}

std::string ClusterImpl::GetGangs(uint64_t after) {
  Gangs& gangs = fabric_->gangs();
  gangs.recent().Look(environment_.clock->Now());
  return ToJson(GangReport{gangs.NowNs(), after, gangs.recent().last(), gangs.recent().After(after), gangs.ListUnderway()});
}

struct ClusterImpl::Answers {
  Housekeeping::MetricsByHost metrics;
  Housekeeping::ExaminationsByHost examinations;
  absl::Time asked, heard;  // by this machine's clock: the question, and the last answer; only if options_.wall_clock is set
};

void ClusterImpl::GetReport(std::optional<std::string> user, bool examine, ResultCallback<StatusReport> done) {
  struct Asked {
    std::optional<std::string> user;
    Answers answers;
    ResultCallback<StatusReport> done;
    int left;
  };
  auto asked = std::make_shared<Asked>(Asked{std::move(user), {}, std::move(done), examine ? 2 : 1});
  if (options_.wall_clock) asked->answers.asked = options_.wall_clock();
  const auto finish = [weak = weak_from_this(), asked] {
    auto self = weak.lock();
    if (self == nullptr || --asked->left > 0) return;
    if (self->options_.wall_clock) asked->answers.heard = self->options_.wall_clock();
    self->strand_.Post([weak, asked] {
      if (auto cluster = weak.lock()) std::move(asked->done)(cluster->MakeReport(asked->user, asked->answers));
    });
  };
  housekeeping_->GatherMetrics(options_.status_timeout, [asked, finish](auto metrics) {
    asked->answers.metrics = std::move(metrics);
    finish();
  });
  if (!examine) return;
  housekeeping_->GatherExaminations(options_.status_timeout, [asked, finish](auto examinations) {
    asked->answers.examinations = std::move(examinations);
    finish();
  });
}

StatusReport ClusterImpl::MakeReport(const std::optional<std::string>& user, const Answers& answers) {
  const absl::Time now = environment_.clock->Now();
  StatusReport report;
  report.version = options_.version;
  report.pid = getpid();
  report.uptime_seconds = absl::ToDoubleSeconds(now - started_);
  report.formed = formed_;
  report.expected_hosts = options_.expect_hosts;
  report.joined_hosts = static_cast<int>(hosts_.size() + PendingLinks().size());
  if (listener_ != nullptr) report.workers_address = listener_->address();
  report.platform_name = info_->platform_name;
  report.stablehlo_version = info_->stablehlo_version;
  report.policy = options_.gang.policy;
  report.granted = fabric_->gangs().scheduler().grants();
  report.translated_programs = fabric_->translated_programs();
  report.array_bytes = fabric_->array_bytes();
  report.topology = fabric_->topology().TakeSnapshot();
  for (const auto& [host, joined] : hosts_) {
    HostStatus& status = report.hosts[host];
    const absl::Duration silence = now - joined.last_heard;
    status.state = silence > options_.heartbeat_limit / 3 ? "silent" : "up";
    status.pid = joined.hello.pid();
    status.data_address = joined.hello.data_address();
    if (joined.link != 0) {
      status.peer = links_.at(joined.link).link->connection()->peer();
    } else {
      status.state = "away";
      status.seconds_away = absl::ToDoubleSeconds(now - joined.away_since);
    }
    status.seconds_since_heard = absl::ToDoubleSeconds(silence);
    const net::Counters counters = CountersOf(joined);
    status.bytes_sent = counters.bytes_sent;
    status.bytes_received = counters.bytes_received;
    status.frames_sent = counters.frames_sent;
    status.frames_received = counters.frames_received;
    status.ops_in_flight = static_cast<int64_t>(fabric_->ops().CountFor(host));
    const dispatch::CommandCounters sent = fabric_->outbox().counters(host);
    for (const auto& [kind, count] : sent.commands)
      status.commands[Command::descriptor()->FindFieldByNumber(kind)->name()] = count;
    if (sent.runs > 0) status.commands["run_program"] = sent.runs;
    if (auto it = answers.metrics.find(host); it != answers.metrics.end()) status.metrics = it->second;
    if (auto it = answers.examinations.find(host); it != answers.examinations.end()) {
      status.examination = it->second;
      if (options_.wall_clock) status.clock_ahead_seconds = ClockAhead(it->second, answers.asked, answers.heard);
    }
    if (const Housekeeping::Health* health = housekeeping_->HealthOf(host); health != nullptr) {
      status.health = health->report;
      status.seconds_since_health = absl::ToDoubleSeconds(now - health->heard);
      if (status.state == "up" && now - health->heard > options_.heartbeat_limit / 3) status.state = "busy";
    }
  }
  for (const auto& [id, opened] : sessions_->opened()) {
    if (opened.observer || (user.has_value() && opened.session->about().user != *user)) continue;
    const SessionImpl& s = *opened.session;
    report.clients.push_back(
        {id, s.about().description, s.about().user, absl::ToDoubleSeconds(now - opened.since),
         static_cast<int64_t>(s.num_arrays()), s.live_bytes(), s.host_buffers().bytes(),
         s.host_buffers().admission().peak_bytes(), static_cast<int64_t>(s.host_buffers().admission().waiting()),
         s.host_buffers().admission().held_back(), static_cast<int64_t>(s.num_executables()), fabric_->gangs().ClientOf(id)});
    if (opened.away_since.has_value()) report.clients.back().seconds_away = absl::ToDoubleSeconds(now - *opened.away_since);
  }
  for (UserQuotas::Queued& queued : quotas_->queue()) {
    if (!user.has_value() || queued.user == *user)
      report.waiting_clients.push_back({std::move(queued.description), queued.user, queued.position, std::move(queued.why)});
  }
  report.slices = slices_->Status();
  observation_->AddTo(&report);
  if (user.has_value()) HideOthers(*user, &report);
  return report;
}

// Removes from the report what a user must not learn of other users.
void ClusterImpl::HideOthers(const std::string& user, StatusReport* report) const {
  const auto is_others = [&](SessionId session) {
    auto it = sessions_->opened().find(session);
    return it == sessions_->opened().end() || it->second.session->about().user != user;
  };
  std::erase_if(report->slices, [&](const SliceStatus& slice) { return is_others(slice.client); });
  std::erase_if(report->hangs, [&](const HangStatus& hang) { return is_others(hang.client); });
  std::erase_if(report->events,
                [&](const ClusterEvent& event) { return event.client != SessionId{} && is_others(event.client); });
  for (auto& [host, status] : report->hosts) {
    if (!status.metrics.has_value()) continue;
    for (auto& device : *status.metrics->mutable_memory()->mutable_devices()) {
      std::vector<uint64_t> hidden;
      for (const auto& [session, bytes] : device.used_by_session()) {
        if (is_others(SessionId(session))) hidden.push_back(session);
      }
      for (uint64_t session : hidden) device.mutable_used_by_session()->erase(session);
    }
  }
}

void ClusterImpl::OnAdminRequest(LinkId id, ::pathways::v1::AdminRequest request) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  const absl::StatusOr<identity::Caller> caller = AdmitAsker(it->second, request.token());
  if (!caller.ok()) return Refuse(id, caller.status());
  Trust(id);
  it->second.state = LinkState::kLeaving;
  auto answer = [weak = weak_from_this(), id](absl::StatusOr<std::string> json) {
    auto self = weak.lock();
    if (self == nullptr) return;
    auto link = self->links_.find(id);
    if (link == self->links_.end()) return;
    ::pathways::v1::AdminReply reply;
    session::ToProto(json.status(), reply.mutable_status());
    if (json.ok()) reply.set_json(*std::move(json));
    link->second.link->connection()->Send(reply.SerializeAsString());
    link->second.link->connection()->Close(absl::CancelledError("answered"));
  };
  if (request.has_status()) {
    const bool all = caller->is_operator();
    return GatherStatus(all ? std::nullopt : std::make_optional(caller->user), std::move(answer));
  }
  answer(absl::UnimplementedError(
      "this controller does not know this request: install the same release of pathways where it came from"));
}

}  // namespace pw::controller
