// Core: the state that the parts of one worker share. One Core lives as long as its controller; losing the controller drops the Core and
// everything it holds. Lives on the worker's strand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/future.h"
#include "pathways/device/device.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/trace/recorder.h"
#include "pathways/worker/store/hazards.h"
#include "pathways/worker/store/launch_order.h"
#include "pathways/worker/store/memory_gate.h"
#include "pathways/worker/store/memory_ledger.h"
#include "pathways/worker/store/object_store.h"
#include "pathways/worker/store/outbox.h"
#include "pathways/worker/store/spill.h"

namespace pw::worker {

struct Core {
  Core(device::DeviceRuntime* runtime, Executor* strand, Clock* clock, net::FrameSink* sink, int64_t memory_limit)
      : runtime(runtime),
        strand(strand),
        clock(clock),
        recorder(clock),
        outbox(sink),
        ledger(std::make_shared<MemoryLedger>(static_cast<int>(runtime->devices().size()), memory_limit)),
        order(static_cast<int>(runtime->devices().size()), &hazards),
        memory(ledger.get(), &hazards),
        spill(this) {
    memory.SetSpare(&spill);
  }

  device::DeviceRuntime* const runtime;
  Executor* const strand;
  Clock* const clock;
  trace::Recorder recorder;
  HostId host;                    // the controller's id for this host
  bool shares_memory = false;     // the controller and hosts of this machine can open our shared memory
  bool peers_in_process = false;  // peers are in this process: data is passed to them without a copy, a transfer as one chunk
  net::SharedMemoryFactory shared{net::SharedMemoryFactory::kDefaultLimit, net::KeptOfThisMachine()};
  BlockCache blocks;  // for incoming payloads
  Executor* copy_pool = nullptr;
  Outbox outbox;
  const std::shared_ptr<MemoryLedger> ledger;
  ObjectStore store;
  Hazards hazards;
  LaunchOrder order;
  MemoryGate memory;
  Spill spill;
  absl::flat_hash_set<SessionId> ended;  // released sessions: messages that still arrive for them are dropped
  std::function<void(const pathways::v1::LaunchFailed&)> launch_failed;  // reports a failed multi-host launch to the controller
  std::map<HostId, std::string> host_names;  // the controller's names for peers, including those that have left

  // For error messages: "host 'b0' of island 'b'".
  std::string NameOf(HostId host) const {
    const auto it = host_names.find(host);
    return it == host_names.end() ? ToString(host) : it->second;
  }

  ShardRef NewShard(int device, SessionId session) {
    ShardRef shard = std::make_shared<Shard>(ledger, device, session);
    shard->last_used = hazards.commands();
    return shard;
  }

  // Calls `then` on the strand with the value, unless this Core is gone by then. Counts as activity of the memory gate until then.
  template <class T, class F>
  void Await(const Future<T>& future, F then) {
    memory.Begin();
    future.OnReady(strand,
                   [this, alive = std::weak_ptr<bool>(alive_), then = std::move(then)](const absl::StatusOr<T>& value) mutable {
                     if (alive.expired()) return;
                     then(value);
                     memory.End();
                   });
  }
  // Expires with this Core; for callbacks that may come later.
  std::weak_ptr<bool> alive() const { return alive_; }

 private:
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::worker
