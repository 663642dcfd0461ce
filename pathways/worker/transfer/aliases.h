// Aliases: the commands that create new names, views or failed shards without moving data between devices: Alias, Bitcast, Poison.
//
// Lives on the worker's strand.
#pragma once

#include <memory>

#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"

namespace pw::worker {

class Aliases {
 public:
  Aliases(WorkerContext* context, DeviceArrays* arrays) : context_(context), arrays_(arrays) {}

  // An Alias, a Bitcast or a Poison.
  void Handle(const pathways::v1::Command& command);

 private:
  struct Pending;
  using PendingRef = std::shared_ptr<Pending>;

  void Alias(const pathways::v1::Alias& command);
  void Bitcast(const pathways::v1::Bitcast& command);
  void Poison(const pathways::v1::Poison& command);
  void WaitFor(const PendingRef& pending, const ShardRef& shard);
  Hazards::Outcome StartBitcast(const ShardRef& source, const ShardRef& result, buffers::DType dtype, const device::Dims& dims,
                                const absl::Status& input);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
};

}  // namespace pw::worker
