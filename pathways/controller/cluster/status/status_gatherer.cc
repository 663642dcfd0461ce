#include "pathways/controller/cluster/status/status_gatherer.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace pw::controller {

namespace {

// Returns by how much, at least, a host's clock is ahead of this machine's; negative: behind. The host read it between `asked`
// and `heard`.
double ClockAhead(const ::pathways::v1::Examination& host, absl::Time asked, absl::Time heard) {
  const absl::Time read = absl::FromUnixNanos(host.wall_clock_nanoseconds());
  if (read > heard) return absl::ToDoubleSeconds(read - heard);
  return read < asked ? absl::ToDoubleSeconds(read - asked) : 0;
}

}  // namespace

struct StatusGatherer::Asked {
  User user;
  ResultCallback<StatusReport> done;
  bool examine;
  int left;  // questions without an answer
  Housekeeping::MetricsByHost metrics = {};
  Housekeeping::ExaminationsByHost examinations = {};
  // By this machine's clock: the question, and the last answer. Only if ClusterOptions::wall_clock is set.
  absl::Time when = {}, heard = {};
};

void StatusGatherer::Gather(User user, bool examine, ResultCallback<StatusReport> done) {
  auto asked = std::make_shared<Asked>(Asked{std::move(user), std::move(done), examine, examine ? 2 : 1});
  const ClusterOptions& options = context_.options();
  if (options.wall_clock) asked->when = options.wall_clock();
  const auto answered = [this, alive = std::weak_ptr<bool>(alive_), asked] {
    if (!alive.expired()) OnAnswer(asked);
  };
  housekeeping_->GatherMetrics(options.status_timeout, [asked, answered](auto metrics) {
    asked->metrics = std::move(metrics);
    answered();
  });
  if (!examine) return;
  examined_ = context_.Now();
  housekeeping_->GatherExaminations(options.status_timeout, [asked, answered](auto examinations) {
    asked->examinations = std::move(examinations);
    answered();
  });
}

void StatusGatherer::OnAnswer(const std::shared_ptr<Asked>& asked) {
  if (--asked->left > 0) return;
  if (context_.options().wall_clock) asked->heard = context_.options().wall_clock();
  Keep(*asked);
  context_.Post([this, asked] { std::move(asked->done)(MakeReport(*asked)); });
}

void StatusGatherer::Keep(const Asked& asked) {
  const absl::Time now = context_.Now();
  if (asked.examine && context_.options().examine_machine) own_machine_ = context_.options().examine_machine();
  for (const auto& [host, examination] : asked.examinations) {
    Examined& examined = machines_[host];
    examined = {now, examination};
    examined.examination.clear_launches();
    if (context_.options().wall_clock) examined.clock_ahead_seconds = ClockAhead(examination, asked.when, asked.heard);
  }
  std::erase_if(machines_, [now](const auto& one) { return now - one.second.when > kExaminedFor; });
}

StatusReport StatusGatherer::MakeReport(const Asked& asked) const {
  StatusReport report;
  sources_.fill(asked.user, &report);
  AddAnswers(asked, &report);
  if (!asked.user.has_value()) report.machine = own_machine_;  // only for operators
  if (asked.user.has_value()) HideOthers([&](SessionId session) { return !sources_.is_of(session, *asked.user); }, &report);
  return report;
}

void StatusGatherer::AddAnswers(const Asked& asked, StatusReport* report) const {
  const absl::Time now = context_.Now();
  for (auto& [host, status] : report->hosts) {
    if (auto it = asked.metrics.find(host); it != asked.metrics.end()) status.metrics = it->second;
    // A host that was asked this time and did not answer has none, whatever it answered before.
    const auto known = machines_.find(host);
    if (known != machines_.end() && (!asked.examine || asked.examinations.contains(host))) {
      status.examination = known->second.examination;
      status.clock_ahead_seconds = known->second.clock_ahead_seconds;
      if (const int64_t ends = status.examination->certificate_ends_seconds(); ends != 0 && context_.options().wall_clock)
        status.certificate_seconds = absl::ToDoubleSeconds(absl::FromUnixSeconds(ends) - context_.options().wall_clock());
    }
    if (const Housekeeping::Health* health = housekeeping_->HealthOf(host); health != nullptr) {
      status.health = health->report;
      status.seconds_since_health = absl::ToDoubleSeconds(now - health->heard);
      if (status.state == "up" && now - health->heard > context_.options().heartbeat_limit / 3) status.state = "busy";
    }
  }
}

void HideOthers(const std::function<bool(SessionId)>& is_others, StatusReport* report) {
  std::erase_if(report->slices, [&](const SliceStatus& slice) { return is_others(slice.client); });
  report->hangs_named = std::nullopt;
  std::erase_if(report->hangs, [&](const HangStatus& hang) { return is_others(hang.client); });
  std::erase_if(report->events,
                [&](const ClusterEvent& event) { return event.client != SessionId{} && is_others(event.client); });
  for (auto& [host, status] : report->hosts) {
    if (status.health.has_value()) {
      status.health->clear_users();
      auto& waits = *status.health->mutable_quota_waits();
      waits.erase(
          std::remove_if(waits.begin(), waits.end(), [&](const auto& wait) { return is_others(SessionId(wait.session())); }),
          waits.end());
    }
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

}  // namespace pw::controller
