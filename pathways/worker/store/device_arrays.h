// DeviceArrays: the arrays on this host's devices. It owns their names (ObjectStore), the accounts of their memory (MemoryLedger), the
// order of the commands that read and consume them (Hazards), the users whose arrays are limited (Accounts), and the gate through which
// new arrays get memory (MemoryGate).
//
// A part that makes or reads arrays uses all four: it finds or binds names, submits a task, asks for memory, and awaits the device.
//
// Invariants:
//   DA-1  a callback of Await does not run after the worker is gone
// Lives on the worker's strand.
#pragma once

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "pathways/base/threads/future.h"
#include "pathways/device/device.h"
#include "pathways/worker/store/accounts.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/hazards.h"
#include "pathways/worker/store/memory_gate.h"
#include "pathways/worker/store/memory_ledger.h"
#include "pathways/worker/store/object_store.h"

namespace pw::worker {

class DeviceArrays {
 public:
  // Both outlive this. `memory_limit`: bytes per device; 0: none.
  // `ledger`: of the Worker before, which has left arrays; else null.
  DeviceArrays(const WorkerContext* context, device::DeviceRuntime* runtime, int64_t memory_limit,
               std::shared_ptr<MemoryLedger> ledger = nullptr)
      : context_(context),
        runtime_(runtime),
        ledger_(ledger != nullptr ? std::move(ledger)
                                  : std::make_shared<MemoryLedger>(static_cast<int>(runtime->devices().size()), memory_limit)),
        memory_(context, ledger_.get(), &accounts_, &hazards_) {}
  DeviceArrays(const DeviceArrays&) = delete;

  device::DeviceRuntime* runtime() const { return runtime_; }
  const MemoryLedger& ledger() const { return *ledger_; }
  const std::shared_ptr<MemoryLedger>& shared_ledger() const { return ledger_; }
  ObjectStore& store() { return store_; }
  const ObjectStore& store() const { return store_; }
  Hazards& hazards() { return hazards_; }
  const Hazards& hazards() const { return hazards_; }
  MemoryGate& memory() { return memory_; }
  const MemoryGate& memory() const { return memory_; }

  const Accounts& accounts() const { return accounts_; }
  // Sets the users whose use of this host is limited.
  // `also_holds`: whether this host holds anything else of a session.
  void SetAccounts(const pathways::v1::HostConfig& config, absl::FunctionRef<bool(SessionId)> also_holds) {
    accounts_.Set(
        config, [&](SessionId session) { return ledger_->Holds(session) || also_holds(session); },
        [this](SessionId session) { return context_->ended(session); });
    memory_.Recheck();
  }

  // Makes a pending shard, still without a name.
  ShardRef NewShard(int device, SessionId session) {
    ShardRef shard = std::make_shared<Shard>(ledger_, device, session);
    shard->last_used = hazards_.commands();
    return shard;
  }

  // Calls `then` on the strand with the value, unless the worker is gone by then. Counts as activity of the memory gate until then.
  template <class T, class F>
  void Await(const Future<T>& future, F then) {
    memory_.Begin();
    future.OnReady(context_->strand(),
                   [this, alive = context_->alive(), then = std::move(then)](const absl::StatusOr<T>& value) mutable {
                     if (alive.expired()) return;
                     then(value);
                     memory_.End();
                   });
  }
  // Like Await, for work on these devices that is done for a session.
  template <class T, class F>
  void AwaitWork(SessionId session, absl::Span<const int> devices, const Future<T>& future, F then) {
    Await(future, [this, session, counted = memory_.BeginWork(session, devices),
                   then = std::move(then)](const absl::StatusOr<T>& value) mutable {
      then(value);
      memory_.EndWork(session, counted);
    });
  }

 private:
  const WorkerContext* const context_;
  device::DeviceRuntime* const runtime_;
  const std::shared_ptr<MemoryLedger> ledger_;
  ObjectStore store_;
  Hazards hazards_;
  Accounts accounts_;
  MemoryGate memory_;
};

}  // namespace pw::worker
