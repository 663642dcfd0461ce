#include "pathways/worker/housekeeping/order_forwarder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "pathways/base/status_macros.h"

namespace pw::worker {
namespace v1 = pathways::v1;

namespace {
constexpr int kMostHosts = static_cast<int>(dataflow::Placement::kMaxBlocks);  // most hosts of an order: one placement
}  // namespace

// The shard of a run of the controller. Ends when the run over the group has ended.
class OrderForwarder::Order : public dataflow::Operator {
 public:
  explicit Order(OrderForwarder* forwarder) : forwarder_(forwarder) {}
  void OnInputsClosed(dataflow::Shard& shard) override {
    v1::ForwardOrder order;
    const auto& hosts = order.hosts();
    const bool sound = order.ParseFromString(shard.argument()) && !hosts.empty() && hosts.size() <= kMostHosts &&
                       std::find(hosts.begin(), hosts.end(), dataflow::kControllerHost.v) == hosts.end();
    if (!sound) return shard.Finish(absl::InvalidArgumentError("forward-order: the argument is no order for hosts"));
    forwarder_->Tell(order, [runtime = forwarder_->runtime_, ref = shard.ref()](const v1::ForwardReport& report) {
      runtime->With(ref, [&](dataflow::Shard& end) {
        for (dataflow::EdgeId edge : end.outputs())
          end.Send(edge, end.index(), {Bytes::FromString(report.SerializeAsString()), absl::OkStatus()});
        end.Finish();
      });
    });
  }

 private:
  OrderForwarder* const forwarder_;
};

std::unique_ptr<dataflow::Operator> OrderForwarder::MakeOperator() { return std::make_unique<Order>(this); }

void OrderForwarder::Tell(const v1::ForwardOrder& order, Done done) {
  auto report = std::make_shared<v1::ForwardReport>();
  std::vector<dataflow::HostSet::Interval> intervals;
  for (uint32_t host : order.hosts()) intervals.push_back({HostId(host), 1});
  const dataflow::HostSet hosts(std::move(intervals));
  auto finish = [this, report, done = std::move(done)] {
    report->set_told_nanoseconds(Now());
    done(*report);
  };
  const absl::StatusOr<dataflow::GraphId> graph = GraphOver(order.op(), hosts);
  if (!graph.ok()) {  // a host is lost; not inside the operator's callback
    return context_->strand()->Post([finish, alive = context_->alive()] {
      if (!alive.expired()) finish();
    });
  }
  dataflow::RunOptions options;
  options.argument = order.argument();
  options.on_tuple = [this, report, hosts](dataflow::NodeId, uint32_t shard, dataflow::Tuple tuple) {
    auto* answer = report->add_answers();
    answer->set_host(hosts.At(shard).v);
    answer->set_report(std::string(tuple.data.view()));
    answer->set_heard_nanoseconds(Now());
  };
  dataflow::OverlookFailedShards(options);
  options.on_done = [finish](const absl::Status&) { finish(); };
  runtime_->Start(*graph, std::move(options));
}

absl::StatusOr<dataflow::GraphId> OrderForwarder::GraphOver(const std::string& op, const dataflow::HostSet& hosts) {
  if (known_.has_value() && known_->op == op && known_->hosts == hosts) return known_->graph;
  const auto there = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnePerHost(hosts));
  const auto here = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(context_->self(), hosts.size()));
  PW_ASSIGN_OR_RETURN(
      auto graph, dataflow::Graph::Create({{op, op, "", there}, {"result", dataflow::kResultOp, "", here}},
                                          {{dataflow::NodeId(0), dataflow::NodeId(1), dataflow::EdgeKind::kOneToOne, true, true}},
                                          dataflow::HostLoss::kFailsShards));
  PW_ASSIGN_OR_RETURN(const dataflow::GraphId id, runtime_->Install(std::move(graph), dataflow::StarKnobs()));
  if (known_.has_value()) runtime_->Uninstall(known_->graph);
  known_ = Known{op, hosts, id};
  return id;
}

}  // namespace pw::worker
