// ResultOperator: the operator of result nodes (kResultOp), at the coordinator. Passes their tuples, closings and errors to the
// callbacks in the run's RunOptions. An error passed to on_closed counts as handled; without on_closed it becomes the run's
// status.
#pragma once

#include <memory>
#include <utility>

#include "pathways/dataflow/operator.h"
#include "pathways/dataflow/runtime.h"

namespace pw::dataflow {

class ResultOperator : public Operator {
 public:
  explicit ResultOperator(std::shared_ptr<const RunOptions> options) : options_(std::move(options)) {}

  void OnTuple(Shard& shard, EdgeId, Tuple tuple) override {
    if (options_->on_tuple) options_->on_tuple(shard.ref().node, shard.index(), std::move(tuple));
  }
  void OnInputsClosed(Shard& shard) override {
    if (options_->on_closed) options_->on_closed(shard.ref().node, shard.index(), absl::OkStatus());
    shard.Finish();
  }
  void OnPoisoned(Shard& shard, const absl::Status& error) override {
    if (!options_->on_closed) return shard.Finish(error);
    options_->on_closed(shard.ref().node, shard.index(), error);
    shard.Finish();
  }

 private:
  const std::shared_ptr<const RunOptions> options_;
};

}  // namespace pw::dataflow
