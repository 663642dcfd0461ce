#include "pathways/dispatch/plan_move.h"

#include <map>
#include <utility>
#include <vector>

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;
using ::pathways::v1::Move;

void SetRegion(const buffers::Region& region, Move::Region* proto) {
  proto->mutable_start()->Add(region.start.begin(), region.start.end());
  proto->mutable_size()->Add(region.size.begin(), region.size.end());
}

// A command of a large reshard is cut into several before its message grows beyond what a frame may hold.
constexpr int kMaxEntries = 4096;

// The moves of one host, each of at most about kMaxEntries sends and pieces.
class Moves {
 public:
  Move& Room() {
    if (moves_.empty() || entries_ >= kMaxEntries) {
      moves_.emplace_back();
      entries_ = 0;
    }
    return moves_.back();
  }
  void Count() { ++entries_; }
  std::vector<Move>& all() { return moves_; }

 private:
  std::vector<Move> moves_;
  int entries_ = 0;  // of the last one
};

class Planner {
 public:
  Planner(const resource::Topology& topology, const MoveCall& call, absl::FunctionRef<uint64_t()> name_transfer)
      : topology_(topology), call_(call), name_transfer_(name_transfer) {}

  void Plan(const buffers::ReshardPlan& plan) {
    for (const buffers::ReshardShard& shard : plan) {
      const resource::Device& device = *topology_.FindDevice(call_.result_spec->sharding.devices()[shard.shard]);
      if (shard.same_as >= 0) {
        AddTwin(shard, device);
        continue;
      }
      Move::Receive& receive = AddReceive(first_[device.host], shard.shard, device);
      for (const buffers::ReshardPiece& piece : shard.pieces) AddPiece(piece, device.host, receive);
    }
  }

  // Twins read what the first commands make, so they come second.
  void Emit(NameOp name_op, Outbox& outbox) {
    for (auto* moves : {&first_, &second_}) {
      for (auto& [host, of_host] : *moves) {
        for (Move& move : of_host.all()) {
          move.set_op(name_op(host).v);
          move.set_session(call_.session.v);
          Command command;
          *command.mutable_move() = std::move(move);
          outbox.Add(host, std::move(command));
        }
      }
    }
  }

 private:
  Move::Receive& AddReceive(Moves& moves, int shard, const resource::Device& device) {
    const buffers::ArraySpec& spec = *call_.result_spec;
    Move::Receive& receive = *moves.Room().add_receives();
    moves.Count();
    receive.set_array(call_.result.v);
    receive.set_shard(shard);
    receive.set_local_device(device.local_ordinal);
    receive.set_memory_kind(spec.sharding.memory_kind());
    receive.set_dtype(static_cast<int32_t>(spec.dtype));
    const buffers::Region region = spec.sharding.TileRegion(spec.dims, spec.sharding.TileOfShard(shard));
    receive.mutable_dims()->Add(region.size.begin(), region.size.end());
    return receive;
  }

  void AddPiece(const buffers::ReshardPiece& piece, HostId to_host, Move::Receive& receive) {
    const HostId from_host = topology_.FindDevice(call_.source_spec->sharding.devices()[piece.source_shard])->host;
    Move::Receive::Piece& proto = *receive.add_pieces();
    first_[to_host].Count();
    SetRegion(piece.to, proto.mutable_to());
    proto.set_from_host(from_host.v);
    if (from_host == to_host) {
      proto.set_source_array(call_.source.v);
      proto.set_source_shard(piece.source_shard);
      SetRegion(piece.from, proto.mutable_from());
      return;
    }
    proto.set_transfer(name_transfer_());
    Move::Send& send = *first_[from_host].Room().add_sends();
    first_[from_host].Count();
    send.set_transfer(proto.transfer());
    send.set_array(call_.source.v);
    send.set_shard(piece.source_shard);
    SetRegion(piece.from, send.mutable_region());
    send.set_to_host(to_host.v);
  }

  void AddTwin(const buffers::ReshardShard& shard, const resource::Device& device) {
    Move::Receive& receive = AddReceive(second_[device.host], shard.shard, device);
    buffers::Region whole{buffers::Dims(receive.dims_size(), 0), buffers::Dims(receive.dims().begin(), receive.dims().end())};
    Move::Receive::Piece& piece = *receive.add_pieces();
    SetRegion(whole, piece.mutable_to());
    SetRegion(whole, piece.mutable_from());
    piece.set_from_host(device.host.v);
    piece.set_source_array(call_.result.v);
    piece.set_source_shard(shard.same_as);
  }

  const resource::Topology& topology_;
  const MoveCall& call_;
  const absl::FunctionRef<uint64_t()> name_transfer_;
  std::map<HostId, Moves> first_;
  std::map<HostId, Moves> second_;
};

}  // namespace

buffers::ReshardPlan ShardwisePlan(const buffers::ArraySpec& source) {
  buffers::ReshardPlan plan;
  const buffers::Sharding& sharding = source.sharding;
  for (int shard = 0; shard < sharding.num_shards(); ++shard) {
    const buffers::Region region = sharding.TileRegion(source.dims, sharding.TileOfShard(shard));
    const buffers::Region whole{buffers::Dims(region.size.size(), 0), region.size};
    buffers::ReshardShard entry{shard, {}};
    if (!whole.empty()) entry.pieces.push_back({shard, whole, whole});
    plan.push_back(std::move(entry));
  }
  return plan;
}

void PlanMove(const resource::Topology& topology, const MoveCall& call, const buffers::ReshardPlan& plan,
              absl::FunctionRef<uint64_t()> name_transfer, NameOp name_op, Outbox& outbox) {
  Planner planner(topology, call, name_transfer);
  planner.Plan(plan);
  planner.Emit(name_op, outbox);
}

}  // namespace pw::dispatch
