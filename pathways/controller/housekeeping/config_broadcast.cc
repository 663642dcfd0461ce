#include "pathways/controller/housekeeping/config_broadcast.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pathways/controller/housekeeping/host_poll.h"
#include "pathways/controller/parse.h"

namespace pw::controller {

namespace v1 = ::pathways::v1;

// A round over groups.
class ConfigBroadcast::Round {
 public:
  std::string config;
  absl::Time asked;
  Heard heard;
  absl::AnyInvocable<void() &&> told;  // empty once called
  std::set<HostId> left;               // hosts that have not confirmed
  size_t groups = 0;                   // group runs in flight

  // A host read its clock after `asked`, and before its group's first host heard the answer. By its own clock, the first host then kept the
  // answer for `kept` until it reported, which was before `now`.
  void Hear(const v1::ForwardReport& report, absl::Time now) {
    for (const auto& answer : report.answers()) {
      v1::Configured configured;
      if (left.erase(HostId(answer.host())) == 0 || !heard || !Parse(answer.report(), &configured)) continue;
      // No numbers from a host can overflow these differences.
      const absl::Duration kept = absl::Nanoseconds(report.told_nanoseconds()) - absl::Nanoseconds(answer.heard_nanoseconds());
      heard(HostId(answer.host()), asked, std::max(asked, now - std::max(kept, absl::ZeroDuration())), configured);
    }
  }
  void CallTold() {
    if (told) std::move(std::exchange(told, nullptr))();
  }
};

void ConfigBroadcast::Tell(const std::string& config, const std::vector<HostId>& hosts, Heard heard,
                           absl::AnyInvocable<void() &&> told) {
  const std::vector<std::vector<HostId>> groups = HostPoll::GroupsOf(hosts);
  if (groups.empty()) {
    TellDirectly(config, hosts, std::move(heard));
    return std::move(told)();
  }
  auto round = std::make_shared<Round>();
  round->config = config;
  round->asked = clock_->Now();
  round->heard = std::move(heard);
  round->told = std::move(told);
  round->left.insert(hosts.begin(), hosts.end());
  round->groups = groups.size();
  for (const std::vector<HostId>& group : groups) TellGroup(round, group);
  timers_->After(kPatience, strand_, [this, alive = std::weak_ptr<bool>(alive_), round, hosts] {
    if (alive.expired() || !round->told) return;
    TellRest(round, hosts);
    round->CallTold();
  });
}

void ConfigBroadcast::TellGroup(const RoundRef& round, const std::vector<HostId>& group) {
  v1::ForwardOrder order;
  order.set_op("configure");
  order.set_argument(round->config);
  for (HostId host : group) order.add_hosts(host.v);
  dataflow::RunOptions options;
  options.argument = order.SerializeAsString();
  options.on_tuple = [this, round](dataflow::NodeId, uint32_t, dataflow::Tuple tuple) {
    v1::ForwardReport report;
    if (Parse(tuple.data.view(), &report)) round->Hear(report, clock_->Now());
  };
  options.on_done = [this, alive = std::weak_ptr<bool>(alive_), round, group](const absl::Status&) {
    strand_->Post([this, alive, round, group] {  // not inside the runtime
      if (alive.expired()) return;
      TellRest(round, group);
      if (--round->groups == 0) round->CallTold();
    });
  };
  graphs_->Start(HostGraphCache::Shape::kAnswers, "forward-order", AsSet({group[0]}), std::move(options));
}

void ConfigBroadcast::TellRest(const RoundRef& round, const std::vector<HostId>& group) {
  std::vector<HostId> rest;
  std::copy_if(group.begin(), group.end(), std::back_inserter(rest),
               [&](HostId host) { return round->left.erase(host) > 0 && there_->contains(host); });
  if (!rest.empty()) TellDirectly(round->config, rest, round->heard);
}

void ConfigBroadcast::TellDirectly(const std::string& config, const std::vector<HostId>& hosts, Heard heard) {
  dataflow::RunOptions options;
  options.argument = config;
  options.on_tuple = [this, hosts, asked = clock_->Now(), heard = std::move(heard)](dataflow::NodeId, uint32_t shard,
                                                                                    dataflow::Tuple tuple) {
    v1::Configured configured;
    if (heard && Parse(tuple.data.view(), &configured)) heard(hosts[shard], asked, clock_->Now(), configured);
  };
  graphs_->Start(HostGraphCache::Shape::kAnswers, "configure", AsSet(hosts), std::move(options));
}

}  // namespace pw::controller
