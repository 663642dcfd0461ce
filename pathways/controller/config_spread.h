// ConfigSpread: tells hosts what to go by (v1.HostConfig), and hears that they do, with a reading of each one's clock.
//
// Up to HostQuestions::kFanIn hosts, and those that join, are told by this process, each in its place among the commands. More are told in
// groups: the first host of each tells the others, over their own connections, and one answer comes here for all (worker/pass_on.h).
// So a round costs this process a start and two frames a group, whatever the number of hosts. Who has not been heard when a group's run
// ends (somebody in it was lost), or when the time is up (somebody hangs), is told by this process after all.
//
// Invariants:
//   CS-1  every host that is there is told, whoever else is lost
//   CS-2  `told` comes once: what is sent to any of the hosts from then on finds it there
//   CS-3  each host is heard at most once in a round
// A host may be told twice, or of a new configuration before an old one: the version says which counts.
// Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/base/timer_queue.h"
#include "pathways/controller/host_graphs.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::controller {

class ConfigSpread {
 public:
  // Between these moments, by the clock here, the host read its own.
  using Heard = std::function<void(HostId host, absl::Time after, absl::Time before, const ::pathways::v1::Configured&)>;
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // All outlive this; `there`: the hosts that there are.
  ConfigSpread(HostGraphs* graphs, Executor* strand, Clock* clock, Timers* timers, const std::set<HostId>* there)
      : graphs_(graphs), strand_(strand), clock_(clock), timers_(timers), there_(there) {}

  // `hosts` are there, ascending. `heard` may be empty. `told` may come inside this call.
  void Tell(const std::string& config, const std::vector<HostId>& hosts, Heard heard, absl::AnyInvocable<void() &&> told);
  // Without others in between. They are told when this returns.
  void TellDirectly(const std::string& config, const std::vector<HostId>& hosts, Heard heard);

 private:
  class Round;
  using RoundRef = std::shared_ptr<Round>;
  void TellGroup(const RoundRef& round, const std::vector<HostId>& group);
  void TellRest(const RoundRef& round, const std::vector<HostId>& group);

  HostGraphs* const graphs_;
  Executor* const strand_;
  Clock* const clock_;
  Timers* const timers_;
  const std::set<HostId>* const there_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
