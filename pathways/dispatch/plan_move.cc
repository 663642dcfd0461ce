#include "pathways/dispatch/plan_move.h"

#include <map>
#include <utility>
#include <vector>

#include "pathways/program/repeated_moves.h"

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;
using ::pathways::v1::Move;

void SetRegion(const buffers::Region& region, Move::Region* proto) {
  proto->mutable_start()->Add(region.start.begin(), region.start.end());
  proto->mutable_size()->Add(region.size.begin(), region.size.end());
}

// A command of a large reshard is split into several, before its message exceeds the limit of a frame.
constexpr int kMaxEntries = 4096;

// One host's part of a move: its sends to each other host, and its receives.
class HostMoves {
 public:
  void Send(HostId to, const Move::Send& send) { sends_[to].Add(send); }
  void Receive(const Move::Receive& receive) { receives_.Add(receive); }

  // Returns commands of about kMaxEntries sends and pieces each, at most. Each host sends to the host after it first, so that not all
  // hosts send to the same one at once.
  std::vector<Move> Take(HostId self) {
    auto after = sends_.upper_bound(self);
    for (auto it = after; it != sends_.end(); ++it) AddSends(it->second);
    for (auto it = sends_.begin(); it != after; ++it) AddSends(it->second);
    for (Move::Receive& receive : receives_.Take()) *Room(1 + receive.pieces_size()).add_receives() = std::move(receive);
    return std::move(moves_);
  }

 private:
  void AddSends(program::MoveRuns<Move::Send>& sends) {
    for (Move::Send& send : sends.Take()) *Room(1).add_sends() = std::move(send);
  }
  Move& Room(int entries) {
    if (moves_.empty() || entries_ >= kMaxEntries) {
      moves_.emplace_back();
      entries_ = 0;
    }
    entries_ += entries;
    return moves_.back();
  }

  std::map<HostId, program::MoveRuns<Move::Send>> sends_;
  program::MoveRuns<Move::Receive> receives_;
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
      SetReceive(shard.shard, device);
      for (const buffers::ReshardPiece& piece : shard.pieces) AddPiece(piece, device.host);
      first_[device.host].Receive(receive_);
    }
  }

  // Twins (shards with same_as) read shards that the first commands make, so their commands come second.
  void Emit(NameOp name_op, Outbox& outbox) {
    for (auto* moves : {&first_, &second_}) {
      for (auto& [host, of_host] : *moves) {
        for (Move& move : of_host.Take(host)) {
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
  void SetReceive(int shard, const resource::Device& device) {
    const buffers::ArraySpec& spec = *call_.result_spec;
    Move::Receive& receive = receive_;
    receive.Clear();
    receive.set_array(call_.result.v);
    receive.set_shard(shard);
    receive.set_local_device(device.local_ordinal);
    receive.set_memory_kind(spec.sharding.memory_kind());
    receive.set_dtype(static_cast<int32_t>(spec.dtype));
    const int64_t tile = spec.sharding.TileOfShard(shard);
    if (tile != tile_) tile_dims_ = spec.sharding.TileRegion(spec.dims, tile).size;
    tile_ = tile;
    receive.mutable_dims()->Add(tile_dims_.begin(), tile_dims_.end());
  }

  void AddPiece(const buffers::ReshardPiece& piece, HostId to_host) {
    const HostId from_host = topology_.FindDevice(call_.source_spec->sharding.devices()[piece.source_shard])->host;
    Move::Receive::Piece& proto = *receive_.add_pieces();
    SetRegion(piece.to, proto.mutable_to());
    proto.set_from_host(from_host.v);
    if (from_host == to_host) {
      proto.set_source_array(call_.source.v);
      proto.set_source_shard(piece.source_shard);
      SetRegion(piece.from, proto.mutable_from());
      return;
    }
    proto.set_transfer(name_transfer_());
    Move::Send& send = send_;
    send.Clear();
    send.set_transfer(proto.transfer());
    send.set_array(call_.source.v);
    send.set_shard(piece.source_shard);
    SetRegion(piece.from, send.mutable_region());
    send.set_to_host(to_host.v);
    first_[from_host].Send(to_host, send);
  }

  void AddTwin(const buffers::ReshardShard& shard, const resource::Device& device) {
    SetReceive(shard.shard, device);
    Move::Receive::Piece& piece = *receive_.add_pieces();
    for (Move::Region* whole : {piece.mutable_to(), piece.mutable_from()}) {
      whole->mutable_start()->Resize(receive_.dims_size(), 0);
      *whole->mutable_size() = receive_.dims();
    }
    piece.set_from_host(device.host.v);
    piece.set_source_array(call_.result.v);
    piece.set_source_shard(shard.same_as);
    second_[device.host].Receive(receive_);
  }

  const resource::Topology& topology_;
  const MoveCall& call_;
  const absl::FunctionRef<uint64_t()> name_transfer_;
  // The entries being made; their memory is reused for the next ones.
  Move::Receive receive_;
  Move::Send send_;
  // The tile of the last receive, and its dims: the next receive is often of the same tile.
  int64_t tile_ = -1;
  buffers::Dims tile_dims_;
  std::map<HostId, HostMoves> first_;
  std::map<HostId, HostMoves> second_;
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
