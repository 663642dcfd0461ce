#include "pathways/controller/housekeeping/host_poll.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pathways/controller/parse.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::controller {

class HostPoll::Round {
 public:
  struct Run {
    dataflow::RunId id;
    std::vector<HostId> hosts;
    bool grouped = false;
  };
  std::string op;
  Heard heard;
  absl::AnyInvocable<void() &&> done;  // empty once called
  std::set<HostId> left;
  std::map<int, Run> runs;
  int next_run = 0;
  int starting = 0;  // posted tasks that may start runs
  bool ended = false;

  void Hear(HostId host, std::string_view report) {
    if (!ended && left.erase(host) > 0) heard(host, report);
  }
};

dataflow::HostSet AsSet(const std::vector<HostId>& hosts) {
  std::vector<dataflow::HostSet::Interval> intervals;
  for (HostId host : hosts) intervals.push_back({host, 1});
  return dataflow::HostSet(std::move(intervals));
}

std::vector<std::vector<HostId>> HostPoll::GroupsOf(const std::vector<HostId>& hosts) {
  std::vector<std::vector<HostId>> groups;
  if (hosts.size() <= kFanIn) return groups;
  const size_t size = std::max(kFanIn, (hosts.size() + kFanIn - 1) / kFanIn);
  for (size_t at = 0; at < hosts.size(); at += size)
    groups.emplace_back(hosts.begin() + static_cast<ptrdiff_t>(at),
                        hosts.begin() + static_cast<ptrdiff_t>(std::min(at + size, hosts.size())));
  return groups;
}

const std::set<HostId>& HostPoll::Left(const Round& round) { return round.left; }

HostPoll::RoundRef HostPoll::Ask(std::string op, const std::set<HostId>& apart, Heard heard, absl::AnyInvocable<void() &&> done) {
  auto round = std::make_shared<Round>();
  round->op = std::move(op);
  round->heard = std::move(heard);
  round->done = std::move(done);
  round->left = *there_;
  const std::vector<HostId> all(there_->begin(), there_->end());
  std::vector<std::vector<HostId>> groups = GroupsOf(all);
  std::vector<HostId> alone = groups.empty() ? all : std::vector<HostId>();
  for (std::vector<HostId>& group : groups) {  // the rest of a group stays a group, and its graph is used again
    std::copy_if(group.begin(), group.end(), std::back_inserter(alone), [&](HostId host) { return apart.contains(host); });
    std::erase_if(group, [&](HostId host) { return apart.contains(host); });
    if (!group.empty()) Start(round, std::move(group), true);
  }
  if (!alone.empty()) Start(round, std::move(alone), false);
  FinishIfOver(round);
  return round;
}

void HostPoll::Start(const RoundRef& round, std::vector<HostId> hosts, bool grouped) {
  const dataflow::HostSet set = AsSet(hosts);
  const int run = round->next_run++;
  dataflow::RunOptions options;
  options.on_tuple = [round, set, grouped](dataflow::NodeId, uint32_t shard, dataflow::Tuple tuple) {
    if (!grouped) return round->Hear(set.At(shard), tuple.data.view());
    ::pathways::v1::Gathered gathered;
    if (!Parse(tuple.data.view(), &gathered)) return;
    for (const auto& answer : gathered.answers()) {
      if (set.Contains(HostId(answer.host()))) round->Hear(HostId(answer.host()), answer.report());
    }
  };
  options.on_done = [this, alive = std::weak_ptr<bool>(alive_), round, run](const absl::Status& status) {
    if (!alive.expired()) Ended(round, run, status);
  };
  const auto shape = grouped ? HostGraphCache::Shape::kGathered : HostGraphCache::Shape::kAnswers;
  if (const auto id = graphs_->Start(shape, round->op, set, std::move(options)))
    round->runs[run] = {*id, std::move(hosts), grouped};
}

void HostPoll::Ended(const RoundRef& round, int number, const absl::Status& status) {
  const Round::Run run = std::move(round->runs.at(number));
  round->runs.erase(number);
  if (!status.ok() && !round->ended && run.grouped) {
    ++round->starting;  // not inside the runtime
    strand_->Post([this, alive = std::weak_ptr<bool>(alive_), round, hosts = run.hosts] {
      if (alive.expired()) return;
      --round->starting;
      std::vector<HostId> again;
      std::copy_if(hosts.begin(), hosts.end(), std::back_inserter(again),
                   [&](HostId host) { return round->left.contains(host) && there_->contains(host); });
      if (!again.empty() && !round->ended) Start(round, std::move(again), false);
      FinishIfOver(round);
    });
  }
  FinishIfOver(round);
}

void HostPoll::FinishIfOver(const RoundRef& round) {
  if (!round->runs.empty() || round->starting > 0 || !round->done) return;
  std::move(std::exchange(round->done, nullptr))();
}

void HostPoll::Cancel(const RoundRef& round, bool grouped_only, const absl::Status& why) {
  std::vector<dataflow::RunId> runs;
  for (const auto& [number, run] : round->runs) {
    if (run.grouped || !grouped_only) runs.push_back(run.id);
  }
  for (dataflow::RunId run : runs) runtime_->Cancel(run, why);
}

void HostPoll::Hurry(const RoundRef& round) {
  Cancel(round, true, absl::DeadlineExceededError("some hosts of this group have not answered in time"));
}

void HostPoll::End(const RoundRef& round) {
  round->ended = true;
  Cancel(round, false, absl::DeadlineExceededError("not all hosts have answered in time"));
  FinishIfOver(round);
}

}  // namespace pw::controller
