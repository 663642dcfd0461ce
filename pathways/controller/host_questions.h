// HostQuestions: asks all hosts the same thing, and hears the answers (health, metrics).
//
// Up to kFanIn hosts answer here, each by itself. More are asked in groups of kFanIn (of more, from kFanIn² hosts on): the first host of a
// group hears the others, and one answer comes here for all (host_graphs.h). So a round costs this process a start to each host, and two
// frames back from each group.
//
// A group is a run of its own, and nobody waits for a host of another. A group whose run fails (the host that adds up is lost, or a
// connection between two of its hosts) is asked again, each host by itself; so is one that has not answered when the asker is in a
// hurry. So who is lost, or hangs, is missing in the round, and nobody else.
//
// Invariants:
//   HQ-1  each host is heard at most once in a round
//   HQ-2  `done` comes once: when everyone has answered, or is lost, or after End
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/base/executor.h"
#include "pathways/controller/host_graphs.h"
#include "pathways/dataflow/runtime.h"

namespace pw::controller {

dataflow::HostSet AsSet(const std::vector<HostId>& hosts);

class HostQuestions {
 public:
  static constexpr size_t kFanIn = 64;
  using Heard = std::function<void(HostId host, std::string_view report)>;
  class Round;
  using RoundRef = std::shared_ptr<Round>;

  // All outlive this; `there`: the hosts that there are, with whoever is lost missing when its runs end.
  HostQuestions(dataflow::Runtime* runtime, HostGraphs* graphs, Executor* strand, const std::set<HostId>* there)
      : runtime_(runtime), graphs_(graphs), strand_(strand), there_(there) {}

  // Those `apart` answer by themselves. `done` may come inside this call, and inside any call of the runtime.
  RoundRef Ask(std::string op, const std::set<HostId>& apart, Heard heard, absl::AnyInvocable<void() &&> done);
  // Nobody waits for another any more.
  void Hurry(const RoundRef& round);
  // Nobody is heard any more.
  void End(const RoundRef& round);
  // Who has not answered.
  static const std::set<HostId>& Left(const Round& round);

  // Groups of hosts that answer together; none: each by itself. Pure.
  static std::vector<std::vector<HostId>> GroupsOf(const std::vector<HostId>& hosts);

 private:
  void Start(const RoundRef& round, std::vector<HostId> hosts, bool grouped);
  void Ended(const RoundRef& round, int run, const absl::Status& status);
  void Cancel(const RoundRef& round, bool grouped_only, const absl::Status& why);
  static void FinishIfOver(const RoundRef& round);

  dataflow::Runtime* const runtime_;
  HostGraphs* const graphs_;
  Executor* const strand_;
  const std::set<HostId>* const there_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
