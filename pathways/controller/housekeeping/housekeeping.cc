#include "pathways/controller/housekeeping/housekeeping.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pathways/controller/parse.h"

namespace pw::controller {
namespace {

namespace v1 = ::pathways::v1;

std::vector<HostId> Listed(const std::set<HostId>& hosts) { return {hosts.begin(), hosts.end()}; }

// The shard of launch-failed. The run's argument holds its message.
class LaunchFailedOperator : public dataflow::Operator {
 public:
  using Tell = std::function<void(const v1::LaunchFailed&)>;
  LaunchFailedOperator(v1::LaunchFailed failed, Tell tell) : failed_(std::move(failed)), tell_(std::move(tell)) {}
  void OnInputsClosed(dataflow::Shard& shard) override {
    tell_(failed_);
    shard.Finish();
  }

 private:
  const v1::LaunchFailed failed_;
  const Tell tell_;
};

}  // namespace

Housekeeping::Housekeeping(dispatch::Outbox* outbox, Executor* strand, Clock* clock, Timers* timers, DataflowLinks::Lose lose)
    : strand_(strand),
      clock_(clock),
      timers_(timers),
      operators_(MakeOperators()),
      links_(outbox, strand, std::move(lose)),
      runtime_({dataflow::kControllerHost, strand, clock, timers, &links_, &operators_}, {.progress = dataflow::StarKnobs()}),
      graphs_(&runtime_),
      questions_(&runtime_, &graphs_, strand, &hosts_),
      configs_(&graphs_, strand, clock, timers, &hosts_) {}

dataflow::Operators Housekeeping::MakeOperators() {
  dataflow::Operators operators;
  operators.Add("launch-failed",
                [this](const dataflow::OperatorContext& context) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
                  v1::LaunchFailed failed;
                  if (!failed.ParseFromString(context.argument))
                    return absl::InvalidArgumentError("the report of a failed launch does not parse");
                  return std::make_unique<LaunchFailedOperator>(std::move(failed),
                                                                [this](const v1::LaunchFailed& f) { AbortElsewhere(f); });
                });
  return operators;
}

void Housekeeping::SetHosts(std::set<HostId> hosts) {
  std::vector<HostId> joined;
  std::set_difference(hosts.begin(), hosts.end(), hosts_.begin(), hosts_.end(), std::back_inserter(joined));
  hosts_ = std::move(hosts);
  if (!joined.empty()) configs_.TellDirectly(config_.SerializeAsString(), joined, OnceConfigured());
}

void Housekeeping::RemoveHost(HostId host, const absl::Status& reason) {
  hosts_.erase(host);
  health_.erase(host);
  graphs_.HostLost(host);
  links_.RemoveHost(host, reason);
}

bool Housekeeping::Start(Shape shape, const std::string& op, const std::vector<HostId>& hosts, std::string argument,
                         OnTuple on_tuple, OnDone done) {
  std::vector<HostId> there;
  std::copy_if(hosts.begin(), hosts.end(), std::back_inserter(there), [this](HostId host) { return hosts_.contains(host); });
  if (there.empty()) return false;
  const dataflow::HostSet set = AsSet(there);
  dataflow::RunOptions options;
  options.argument = std::move(argument);
  options.on_tuple = [set, on_tuple = std::move(on_tuple)](dataflow::NodeId, uint32_t shard, dataflow::Tuple tuple) {
    if (on_tuple) on_tuple(set.At(shard), tuple);
  };
  options.on_done = std::move(done);
  return graphs_.Start(shape, op, set, std::move(options)).has_value();
}

// ---- configuration

void Housekeeping::Configure(v1::HostConfig config, OnConfigured configured, absl::AnyInvocable<void() &&> told) {
  configured_ = std::make_shared<const OnConfigured>(std::move(configured));
  SpreadConfig(std::move(config), std::move(told));
}

void Housekeeping::SetAccounts(const std::vector<Account>& accounts, absl::AnyInvocable<void() &&> told) {
  v1::HostConfig wanted;
  wanted.mutable_accounts()->Add(accounts.begin(), accounts.end());
  v1::HostConfig present;
  *present.mutable_accounts() = config_.accounts();
  if (wanted.SerializeAsString() == present.SerializeAsString()) return std::move(told)();
  v1::HostConfig config = config_;
  *config.mutable_accounts() = std::move(*wanted.mutable_accounts());
  SpreadConfig(std::move(config), std::move(told));
}

void Housekeeping::SpreadConfig(v1::HostConfig config, absl::AnyInvocable<void() &&> told) {
  config.set_version(config_.version() + 1);
  config_ = std::move(config);
  if (hosts_.empty()) return std::move(told)();
  configs_.Tell(config_.SerializeAsString(), Listed(hosts_), OnceConfigured(), std::move(told));
}

ConfigBroadcast::Heard Housekeeping::OnceConfigured() const {
  return [to = std::weak_ptr<const OnConfigured>(configured_)](HostId host, absl::Time after, absl::Time before,
                                                               const v1::Configured& configured) {
    if (const auto tell = to.lock(); tell != nullptr && *tell) (*tell)(host, after, before, configured);
  };
}

// ---- health and metrics

void Housekeeping::WatchHealth() {
  std::set<HostId> apart;  // a host that did not answer must not delay its group this time
  if (health_round_ != nullptr) {
    apart = HostPoll::Left(*health_round_);
    questions_.End(health_round_);
  }
  auto heard = [this](HostId host, std::string_view bytes) {
    v1::HealthReport report;
    if (hosts_.contains(host) && Parse(bytes, &report)) health_[host] = {std::move(report), clock_->Now()};
  };
  health_round_ = questions_.Ask("health", apart, std::move(heard), [] {});
}

const Housekeeping::Health* Housekeeping::HealthOf(HostId host) const {
  auto it = health_.find(host);
  return it == health_.end() ? nullptr : &it->second;
}

template <class Report>
void Housekeeping::Gather(const std::string& op, absl::Duration timeout,
                          absl::AnyInvocable<void(std::map<HostId, Report>) &&> done) {
  auto answers = std::make_shared<std::map<HostId, Report>>();
  auto heard = [answers](HostId host, std::string_view bytes) {
    Report report;
    if (Parse(bytes, &report)) (*answers)[host] = std::move(report);
  };
  auto round = questions_.Ask(op, {}, std::move(heard),
                              [answers, done = std::move(done)]() mutable { std::move(done)(std::move(*answers)); });
  auto after = [&](absl::Duration delay, void (HostPoll::*what)(const HostPoll::RoundRef&)) {
    timers_->After(delay, strand_, [this, alive = std::weak_ptr<bool>(alive_), round, what] {
      if (!alive.expired()) (questions_.*what)(round);
    });
  };
  after(timeout / 2, &HostPoll::Hurry);
  after(timeout, &HostPoll::End);
}

void Housekeeping::GatherMetrics(absl::Duration timeout, absl::AnyInvocable<void(MetricsByHost) &&> done) {
  Gather<v1::MetricsReport>("metrics", timeout, std::move(done));
}

void Housekeeping::GatherExaminations(absl::Duration timeout, absl::AnyInvocable<void(ExaminationsByHost) &&> done) {
  Gather<v1::Examination>("examine", timeout, std::move(done));
}

void Housekeeping::GatherTraces(const std::map<HostId, std::string>& hosts, OnTrace on_trace,
                                absl::AnyInvocable<void() &&> done) {
  struct Waiting {
    size_t left = 1;  // and this function
    absl::AnyInvocable<void() &&> done;
    void Down() {
      if (--left == 0) std::move(done)();
    }
  };
  auto waiting = std::make_shared<Waiting>();
  waiting->done = std::move(done);
  for (const auto& [host, name] : hosts) {
    v1::EndRecording how;
    how.set_host(name);
    auto heard = [on_trace, asked = clock_->Now()](HostId from, const dataflow::Tuple& tuple) {
      v1::EndedRecording report;
      if (Parse(tuple.data.view(), &report)) on_trace(from, asked, std::move(report));
    };
    if (Start(Shape::kAnswers, "trace", {host}, how.SerializeAsString(), std::move(heard),
              [waiting](const absl::Status&) { waiting->Down(); }))
      ++waiting->left;
  }
  waiting->Down();
}

void Housekeeping::ReadProfile(HostId host, const v1::ProfilePart& part,
                               std::function<void(absl::StatusOr<v1::ProfilePiece>)> done) {
  const absl::Status lost = absl::UnavailableError("the host does not keep its profile any more, or has left the cluster");
  auto answer = std::make_shared<absl::StatusOr<v1::ProfilePiece>>(lost);
  auto heard = [answer](HostId, const dataflow::Tuple& tuple) {
    v1::ProfilePiece piece;
    if (Parse(tuple.data.view(), &piece)) *answer = std::move(piece);
  };
  auto ended = [answer, done](const absl::Status&) { done(std::move(*answer)); };
  if (!Start(Shape::kAnswers, "profile", {host}, part.SerializeAsString(), std::move(heard), std::move(ended))) done(lost);
}

void Housekeeping::ReadStacks(HostId host, const v1::StackQuestion& question, std::function<void(const v1::Stacks&)> done) {
  auto answer = std::make_shared<v1::Stacks>();
  auto heard = [answer](HostId, const dataflow::Tuple& tuple) {
    v1::Stacks stacks;
    if (Parse(tuple.data.view(), &stacks)) *answer = std::move(stacks);
  };
  auto ended = [answer, done](const absl::Status&) { done(*answer); };
  if (!Start(Shape::kAnswers, "stacks", {host}, question.SerializeAsString(), std::move(heard), std::move(ended))) done(*answer);
}

// ---- clean-up and errors

void Housekeeping::CleanUp(const std::vector<HostId>& hosts, const v1::CleanUp& what) {
  Start(Shape::kOrder, "clean-up", hosts, what.SerializeAsString(), nullptr, nullptr);
}

void Housekeeping::AbortElsewhere(const v1::LaunchFailed& failed) {
  v1::AbortLaunch abort;
  abort.set_launch(failed.launch());
  *abort.mutable_status() = failed.status();
  std::set<HostId> waiting;
  for (uint32_t host : failed.hosts()) waiting.insert(HostId(host));
  Start(Shape::kOrder, "abort-launch", Listed(waiting), abort.SerializeAsString(), nullptr, nullptr);
}

}  // namespace pw::controller
