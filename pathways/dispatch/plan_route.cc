#include "pathways/dispatch/plan_route.h"

#include <algorithm>
#include <map>
#include <utility>

#include "pathways/base/status_macros.h"
#include "pathways/program/route.h"
#include "pathways/v1/route.pb.h"

namespace pw::dispatch {
namespace {

namespace v1 = ::pathways::v1;
using buffers::ArraySpec;
using program::RouteShape;
using program::RowRange;
using Specs = std::vector<std::shared_ptr<const ArraySpec>>;

class RoutePlanner {
 public:
  RoutePlanner(const program::Node& node, const RouteShape& shape, const resource::Topology& topology)
      : node_(node), shape_(shape), topology_(topology) {}

  absl::StatusOr<RoutePlan> Plan(const std::string& name) {
    AddSenders();
    AddReceivers();
    const auto senders = OneOnEach(senders_), receivers = OneOnEach(receivers_);
    AddTargets(*receivers);
    std::vector<dataflow::Node> nodes = {{name, program::kRouteSend, "", senders, ConfigsOf(senders_)},
                                         {name, program::kRouteReceive, "", receivers, ConfigsOf(receivers_)}};
    std::vector<dataflow::Edge> edges = {
        {dataflow::NodeId(0), dataflow::NodeId(1), dataflow::EdgeKind::kSparse, /*critical=*/true}};
    RoutePlan plan;
    PW_ASSIGN_OR_RETURN(plan.graph,
                        dataflow::Graph::Create(std::move(nodes), std::move(edges), dataflow::HostLoss::kFailsShards));
    for (uint32_t i = 0; i < plan.graph->hosts().size(); ++i) plan.hosts.push_back(PlanOf(plan.graph->hosts().At(i)));
    return plan;
  }

 private:
  const resource::Device& DeviceOf(const ArraySpec& spec, int shard) const {
    return *topology_.FindDevice(spec.sharding.devices()[shard]);
  }

  // Adds the rows of an array to the hosts that send them. Returns the number of the next row.
  int64_t AddPieces(const ArraySpec& spec, int rows_input, int keys_input, int64_t first, int64_t rows_of_each) {
    std::vector<bool> sent(spec.sharding.num_tiles());
    for (int shard = 0; shard < spec.sharding.num_shards(); ++shard) {
      const int64_t tile = spec.sharding.TileOfShard(shard);
      if (sent[tile]) continue;
      sent[tile] = true;
      const RowRange range = program::RowsOfTile(spec, tile);
      auto& piece = *senders_[DeviceOf(spec, shard).host].add_pieces();
      piece.set_rows_input(rows_input);
      piece.set_keys_input(keys_input);
      piece.set_shard(shard);
      piece.set_first(first + range.first * rows_of_each);
      piece.set_count(range.count * rows_of_each);
    }
    return first + spec.dims[0] * rows_of_each;
  }

  void AddSenders() {
    int64_t first = 0;
    if (!shape_.back) AddPieces(*node_.takes[0], 0, 1, first, 1);
    for (int g = 0; shape_.back && g < shape_.groups; ++g)
      first = AddPieces(*node_.takes[g], g, shape_.groups + g, first, shape_.capacity);
    for (auto& [host, sender] : senders_) {
      sender.set_back(shape_.back);
      sender.set_row_bytes(shape_.row_bytes);
      sender.set_capacity(shape_.capacity);
    }
  }

  void AddReceivers() {
    if (shape_.back) {
      AddTiles(*node_.outputs[0], {{0, v1::RouteReceiver::ROWS}}, 0);
    } else {
      int64_t first = 0;
      for (int g = 0; g < shape_.groups; ++g) {
        std::vector<std::pair<int, v1::RouteReceiver::What>> made = {{g, v1::RouteReceiver::ROWS}};
        if (shape_.has_slots) {
          made.push_back({shape_.groups + g, v1::RouteReceiver::SLOTS});
          made.push_back({2 * shape_.groups + g, v1::RouteReceiver::COUNTS});
        }
        AddTiles(*node_.outputs[g], made, first);
        first += shape_.experts[g];
      }
    }
    const int64_t rows = shape_.back ? shape_.num_experts() * shape_.capacity : shape_.rows;
    for (auto& [host, receiver] : receivers_) {
      receiver.set_back(shape_.back);
      receiver.set_dtype(static_cast<int32_t>(shape_.dtype));
      for (int64_t dim : shape_.row_dims) receiver.add_row_dims(dim);
      receiver.set_source_rows(rows);
      receiver.set_capacity(shape_.capacity);
    }
  }

  // Adds the tiles of outputs that are all cut as `spec` to their hosts. `first`: the key of its first row.
  void AddTiles(const ArraySpec& spec, const std::vector<std::pair<int, v1::RouteReceiver::What>>& made, int64_t first) {
    std::map<std::pair<int64_t, HostId>, std::vector<int>> shards_of;  // of each tile on each host, the tiles ascending
    for (int shard = 0; shard < spec.sharding.num_shards(); ++shard)
      shards_of[{spec.sharding.TileOfShard(shard), DeviceOf(spec, shard).host}].push_back(shard);
    for (const auto& [where, shards] : shards_of) {
      const RowRange range = program::RowsOfTile(spec, where.first);
      auto& tile = *receivers_[where.second].add_tiles();
      tile.set_first(first + range.first);
      tile.set_count(range.count);
      for (const auto& [output, what] : made) {
        for (int shard : shards) AddOutput(*node_.outputs[output], output, what, shard, tile);
      }
      hosts_of_[{tile.first(), tile.count()}].push_back(where.second);
    }
  }

  void AddOutput(const ArraySpec& spec, int position, v1::RouteReceiver::What what, int shard, v1::RouteReceiver::Tile& tile) {
    auto& output = *tile.add_outputs();
    output.set_output(position);
    output.set_what(what);
    output.set_shard(shard);
    output.set_local_device(DeviceOf(spec, shard).local_ordinal);
    output.set_memory_kind(spec.sharding.memory_kind());
  }

  void AddTargets(const dataflow::Placement& receivers) {
    for (const auto& [keys, hosts] : hosts_of_) {
      if (keys.second == 0) continue;
      for (auto& [host, sender] : senders_) {
        auto& target = *sender.add_targets();
        target.set_first(keys.first);
        target.set_count(keys.second);
        for (HostId to : hosts) target.add_receivers(*receivers.hosts().PositionOf(to));
      }
    }
  }

  template <class Config>
  static std::shared_ptr<const dataflow::Placement> OneOnEach(const std::map<HostId, Config>& configs) {
    std::vector<dataflow::HostSet::Interval> hosts;
    for (const auto& [host, config] : configs) hosts.push_back({host, 1});
    return std::make_shared<const dataflow::Placement>(dataflow::Placement::OnePerHost(dataflow::HostSet(std::move(hosts))));
  }

  template <class Config>
  static std::function<std::string(HostId)> ConfigsOf(const std::map<HostId, Config>& configs) {
    auto texts = std::make_shared<std::map<HostId, std::string>>();
    for (const auto& [host, config] : configs) (*texts)[host] = config.SerializeAsString();
    return [texts](HostId host) { return texts->at(host); };
  }

  RoutePlan::Host PlanOf(HostId host) const {
    RoutePlan::Host plan{host, senders_.contains(host), {}};
    const auto receiver = receivers_.find(host);
    if (receiver == receivers_.end()) return plan;
    for (const auto& tile : receiver->second.tiles()) {
      for (const auto& output : tile.outputs()) plan.outputs.push_back(static_cast<int>(output.output()));
    }
    std::sort(plan.outputs.begin(), plan.outputs.end());
    plan.outputs.erase(std::unique(plan.outputs.begin(), plan.outputs.end()), plan.outputs.end());
    return plan;
  }

  const program::Node& node_;
  const RouteShape& shape_;
  const resource::Topology& topology_;
  std::map<HostId, v1::RouteSender> senders_;
  std::map<HostId, v1::RouteReceiver> receivers_;
  std::map<std::pair<int64_t, int64_t>, std::vector<HostId>> hosts_of_;  // by the first key of a tile and their number
};

}  // namespace

absl::StatusOr<RoutePlan> PlanRoute(const program::Node& node, const std::string& name, const resource::Topology& topology) {
  PW_ASSIGN_OR_RETURN(const RouteShape shape, program::ShapeOfRoute(node));
  return RoutePlanner(node, shape, topology).Plan(name);
}

}  // namespace pw::dispatch
