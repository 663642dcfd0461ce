#include "pathways/controller/session/runs/route_runs.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "pathways/controller/session/context/joint_end.h"
#include "pathways/v1/route.pb.h"

namespace pw::controller {
// Arrays of a host that is lost get its error, and if it had rows to send, all others too.
void RouteRuns::Launch(NameScope& names, const Call& call) {
  const std::vector<dispatch::RoutePlan::Host>& hosts = call.route.plan.hosts;
  ::pathways::v1::RouteRun message;
  for (const Record& arg : call.args) message.add_inputs(arg->id().v);
  for (const Record& result : call.results) {
    message.add_outputs(result->id().v);
    fabric_->gangs().Await(result);
  }
  const auto ending = std::make_shared<JointEnd>(hosts.size(), call.done);
  absl::flat_hash_map<HostId, std::string> arguments;
  for (const dispatch::RoutePlan::Host& part : hosts) {
    auto waiting = std::make_shared<WeakArrays>();
    for (size_t r = 0; part.sends && r < call.results.size(); ++r) waiting->push_back(call.results[r]);
    for (size_t i = 0; !part.sends && i < part.outputs.size(); ++i) waiting->push_back(call.results[part.outputs[i]]);
    if (!fabric_->outbox().HasHost(part.host)) {
      const absl::Status lost = fabric_->losses().Of(part.host);
      for (const auto& result : *waiting) result.lock()->Poison(lost);
      arguments[part.host] = "";  // the engine sends it to nobody
      ending->EndOne(lost);
      continue;
    }
    for (const auto& result : *waiting) result.lock()->Expect(1);
    const OpId op = names.NextOp(part.host);
    fabric_->ops().Add(part.host, op, std::move(waiting),
                       [ending](const absl::Status& status, std::optional<double>) { ending->EndOne(status); });
    message.set_op(op.v);
    arguments[part.host] = message.SerializeAsString();
    if (fabric_->recorder().on()) context_->Trace(part.host, op, call.location);
  }
  fabric_->StartProgram(call.route.graph, std::move(arguments));
}

}  // namespace pw::controller
