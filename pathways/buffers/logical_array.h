// LogicalArray: the controller's one record of a sharded array (paper 4.2).
//
// However many shards an array has, the controller keeps one record and one reference count. Shards are named by (array, index);
// nothing is stored per shard. The reference count is that of std::shared_ptr: a client's handle, a running computation and a
// waiting reader each hold a Ref. When the last Ref is dropped, or Delete() or Free() is called before, the record calls its
// listener, which tells the hosts to free the shards. Who only wants to know when an array settles holds a Watch: it keeps the record, but
// not the shards.
//
// Life: pending on a number of completions (one for each host that takes part in making it) -> settled: ready or an error. A
// ready array still becomes an error when a device that holds a part of it is lost. The first error stays.
//
// Strand-confined: all calls on the controller's strand, no locks.
//
// Invariants:
//   LA-1  a waiter runs exactly once: when the array settles; at once if it has settled; with CANCELLED if the record is
//         destroyed before
//   LA-2  an error is never replaced; an array never goes from an error or ready back to pending
//   LA-3  the listener's OnReleased is called exactly once, at the latest by the destructor, unless Donate was called before
//   LA-4  a record's memory does not depend on the number of shards; arrays with the same spec share one ArraySpec
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"

namespace pw::buffers {

class LogicalArray {
 public:
  using Ref = std::shared_ptr<LogicalArray>;
  using Waiter = absl::AnyInvocable<void(const absl::Status&) &&>;
  class Watch;
  enum class State : uint8_t { kPending, kReady, kError };

  // Called when the shards of an array may be freed.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnReleased(const LogicalArray& array) = 0;
  };

  // Makes an array that is pending on this number of completions, or ready if it is 0. `listener` outlives the array, or is null.
  LogicalArray(ArrayId id, SessionId owner, std::shared_ptr<const ArraySpec> spec, int completions, Listener* listener);
  // Makes an array that is an error from the start and has nothing to free.
  static Ref MakeError(ArrayId id, SessionId owner, std::shared_ptr<const ArraySpec> spec, absl::Status error);
  ~LogicalArray();
  LogicalArray(const LogicalArray&) = delete;
  LogicalArray& operator=(const LogicalArray&) = delete;

  ArrayId id() const { return id_; }
  SessionId owner() const { return owner_; }
  const ArraySpec& spec() const { return *spec_; }
  const std::shared_ptr<const ArraySpec>& shared_spec() const { return spec_; }
  State state() const { return state_; }
  bool settled() const { return state_ != State::kPending; }
  const absl::Status& status() const { return status_; }  // OK while pending
  int completions_missing() const { return missing_; }

  // Adds completions to wait for. REQUIRES: the array is not ready. On an error it changes only completions_missing().
  void Expect(int completions);
  // Records one completion. The first error settles the array at once; later completions change only completions_missing().
  void OnDone(const absl::Status& status);
  // Makes the array an error, unless it is one already. REQUIRES: !error.ok()
  void Poison(const absl::Status& error);
  // Poisons the array if one of its shards is (or would have been) on a lost device. Returns whether one is.
  bool OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);

  // Calls `waiter` with the array's status once it is ready or an error (LA-1).
  void WhenSettled(Waiter waiter);

  // The user deletes the array: frees the data (calls the listener), and keeps the record, which is deleted(). State and waiters
  // do not change.
  void Delete();
  // Drops a Ref. Frees the data if only Watches are left.
  static void Drop(Ref array);
  // A computation has consumed the data: like Delete, but there is nothing to free, and the listener is not called.
  void Donate();
  bool deleted() const { return deleted_; }
  // Frees the data of an array that is an error. Like Delete, but the record is not deleted(): later uses see the error.
  void Free() { Release(); }

 private:
  void Settle(State state, absl::Status status);
  void Release();

  const ArrayId id_;
  const SessionId owner_;
  const std::shared_ptr<const ArraySpec> spec_;
  Listener* listener_;  // null once it has been called
  int32_t missing_;
  int32_t watches_ = 0;  // each has a Ref
  State state_;
  bool deleted_ = false;
  absl::Status status_;
  std::vector<Waiter> waiters_;
};

// Keeps the record of an array until it has settled, and not the array's data: whoever drops the last other Ref by Drop frees it.
class LogicalArray::Watch {
 public:
  explicit Watch(Ref array) : array_(std::move(array)) { ++array_->watches_; }
  ~Watch() {
    if (array_ != nullptr) --array_->watches_;
  }
  Watch(Watch&& other) noexcept = default;
  Watch& operator=(Watch&& other) = delete;

 private:
  Ref array_;
};

// Runs `done` exactly once, when all arrays have settled: with OK if all are ready, else with the first error in the order of
// `arrays` (LA-1).
void WhenAllSettled(absl::Span<const LogicalArray::Ref> arrays, LogicalArray::Waiter done);

}  // namespace pw::buffers
