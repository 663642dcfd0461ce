// The state of a Move command that this host carries out (moves.h), and helpers: shared by moves.cc and moves_send.cc.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/worker/transfer/moves.h"

namespace pw::worker {

// A Move in progress. It is done when Settled has been called for each of its parts: sends, new shards, and the command itself.
struct Moves::Operation {
  WorkerContext* context;
  uint64_t op;
  SessionId session;
  std::string location;  // in the user's program
  size_t left = 1;       // parts that have not settled; 1 for the command itself
  absl::Status status;
  absl::flat_hash_map<const Shard*, Future<Bytes>> copies;
  absl::Time begun = absl::InfinitePast();
  int64_t bytes = 0;  // sent, and received from peers: for the trace

  void Settled(const absl::Status& part) {
    if (status.ok()) status = part;
    if (--left > 0) return;
    context->outbox().Done(op, status);
    context->recorder().Span(trace::Kind::kTransfer, "transfers", "move", begun,
                             {.flow = op, .bytes = bytes, .session = session.v});
    copies.clear();
  }
};

inline Dims ToDims(const google::protobuf::RepeatedField<int64_t>& field) { return Dims(field.begin(), field.end()); }

// Calls `then` with the reason why reading a shard failed: the shard's own error if the shard fails, possibly a little later, else `error`.
inline void WhyFailed(const ShardRef& shard, const absl::Status& error, std::function<void(const absl::Status&)> then) {
  shard->OnSettled([raw = shard.get(), error, then = std::move(then)] { then(raw->failed() ? raw->error() : error); });
}

}  // namespace pw::worker
