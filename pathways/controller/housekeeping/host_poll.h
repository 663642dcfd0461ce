// HostPoll: asks all hosts the same question and collects the answers (health, metrics). Housekeeping uses it.
//
// Up to kFanIn hosts answer the controller directly. More hosts are asked in groups of kFanIn, or larger ones if there are more
// than kFanIn² hosts. The first host of a group collects the answers of the others and sends one answer for all (host_graph_cache.h).
// So a round costs the controller one start to each host, and two frames back from each group.
//
// Each group is a run of its own: a host of one group does not delay another group. A group's run fails if a host of it or a
// connection between two of its hosts is lost. Then its hosts are asked again, one by one; Hurry does the same for groups that
// have not answered. Hosts that answer directly do not depend on each other. So only the answers of lost or hanging hosts are missing in
// a round.
//
// Invariants:
//   HQ-1  each host is heard at most once in a round
//   HQ-2  `done` runs once: when every host has answered or is lost, or after End
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/base/threads/executor.h"
#include "pathways/controller/housekeeping/host_graph_cache.h"
#include "pathways/dataflow/runtime.h"

namespace pw::controller {

dataflow::HostSet AsSet(const std::vector<HostId>& hosts);

class HostPoll {
 public:
  static constexpr size_t kFanIn = 64;
  using Heard = std::function<void(HostId host, std::string_view report)>;
  class Round;
  using RoundRef = std::shared_ptr<Round>;

  // All pointers must outlive this. `there`: the present hosts; a lost host must be absent from it before its runs end.
  HostPoll(dataflow::Runtime* runtime, HostGraphCache* graphs, Executor* strand, const std::set<HostId>* there)
      : runtime_(runtime), graphs_(graphs), strand_(strand), there_(there) {}

  // Asks all hosts. The hosts `apart` answer directly, outside their groups. `done` may run inside this call, and inside any call of the
  // runtime.
  RoundRef Ask(std::string op, const std::set<HostId>& apart, Heard heard, absl::AnyInvocable<void() &&> done);
  // Asks the hosts of unfinished groups again, one by one.
  void Hurry(const RoundRef& round);
  // Ends the round: `heard` is not called any more.
  void End(const RoundRef& round);
  // Returns the hosts that have not answered.
  static const std::set<HostId>& Left(const Round& round);

  // Returns the groups of hosts that answer together; empty if each host answers by itself. Pure.
  static std::vector<std::vector<HostId>> GroupsOf(const std::vector<HostId>& hosts);

 private:
  void Start(const RoundRef& round, std::vector<HostId> hosts, bool grouped);
  void Ended(const RoundRef& round, int run, const absl::Status& status);
  void Cancel(const RoundRef& round, bool grouped_only, const absl::Status& why);
  static void FinishIfOver(const RoundRef& round);

  dataflow::Runtime* const runtime_;
  HostGraphCache* const graphs_;
  Executor* const strand_;
  const std::set<HostId>* const there_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
