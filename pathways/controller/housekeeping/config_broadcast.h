// ConfigBroadcast: sends hosts their configuration (v1.HostConfig) and collects their confirmations, each with a reading of the host's clock.
// Housekeeping uses it.
//
// The controller itself tells up to HostPoll::kFanIn hosts, and hosts that join, by a message among their commands. A larger
// set is told in groups. The first host of a group tells the others over its own connections, and sends one answer for all of
// them (worker/housekeeping/order_forwarder.h). A round therefore costs the controller a start and two frames for each group, however
// large the groups are. A group without its first host ends at once; if a host hangs, kPatience passes. Then the
// controller itself tells the hosts that have not confirmed.
//
// Invariants:
//   CB-1  every present host is told, even if other hosts are lost
//   CB-2  `told` runs once: commands that are sent to any of the hosts from then on find the configuration in force
//   CB-3  `heard` runs at most once for each host in a round
//
// A host may be told twice, or get a new configuration before an old one: it keeps the one with the greater version.
// Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/housekeeping/host_graph_cache.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::controller {

class ConfigBroadcast {
 public:
  // The host read its clock between `after` and `before`, which are times of the controller's clock.
  using Heard = std::function<void(HostId host, absl::Time after, absl::Time before, const ::pathways::v1::Configured&)>;
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // All pointers must outlive this. `there`: the present hosts.
  ConfigBroadcast(HostGraphCache* graphs, Executor* strand, Clock* clock, Timers* timers, const std::set<HostId>* there)
      : graphs_(graphs), strand_(strand), clock_(clock), timers_(timers), there_(there) {}

  // Sends the configuration to `hosts`: present ones, ascending. `heard` may be empty. `told` may run inside this call.
  void Tell(const std::string& config, const std::vector<HostId>& hosts, Heard heard, absl::AnyInvocable<void() &&> told);
  // Sends to each host directly, not through groups. The hosts count as told when this returns.
  void TellDirectly(const std::string& config, const std::vector<HostId>& hosts, Heard heard);

 private:
  class Round;
  using RoundRef = std::shared_ptr<Round>;
  void TellGroup(const RoundRef& round, const std::vector<HostId>& group);
  void TellRest(const RoundRef& round, const std::vector<HostId>& group);

  HostGraphCache* const graphs_;
  Executor* const strand_;
  Clock* const clock_;
  Timers* const timers_;
  const std::set<HostId>* const there_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
