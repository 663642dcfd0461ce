// LogicalArray: the controller's one record of a sharded array (paper 4.2).
//
// However many shards an array has, the controller keeps this record and one reference count: shards are named by (array, index),
// and nothing is stored for each. The count is that of std::shared_ptr: a client's handle, a computation under way and a waiting
// reader each hold a Ref. When the last goes, or Delete() is called, the listener hears it once and tells the hosts to free the
// shards.
//
// Life: pending on a number of completions (one for each host that has a part in making it) -> ready or error. A ready array can
// still become an error: when a host that holds a part of it is lost. An error stays, with the text of the first.
//
// Strand-confined: all calls on the controller's strand, no locks.
//
// Invariants:
//   LA-1  a waiter runs exactly once: when the array settles, at once if it has, with CANCELLED if the record goes first
//   LA-2  an error is never replaced; an array never goes from an error or ready back to pending
//   LA-3  the listener hears OnReleased at most once, and always, unless the data was given up by Donate
//   LA-4  memory does not depend on the number of shards (the spec is shared between the arrays that have it)
#pragma once

#include <cstdint>
#include <memory>
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
  enum class State : uint8_t { kPending, kReady, kError };

  // Hears that the shards of an array may be freed.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnReleased(const LogicalArray& array) = 0;
  };

  // Pending on `completions`; with 0 it is ready. `listener` may be null, else it outlives the array.
  LogicalArray(ArrayId id, SessionId owner, std::shared_ptr<const ArraySpec> spec, int completions, Listener* listener);
  // An error from the start, with nothing to free.
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

  // More completions to wait for. REQUIRES: pending, or an error (then without effect).
  void Expect(int completions);
  // One completion. The first error settles the array at once; further completions change nothing but completions_missing().
  void OnDone(const absl::Status& status);
  // Binds an error, unless there is one. REQUIRES: !error.ok()
  void Poison(const absl::Status& error);
  // Devices that are gone: poisons the array if a shard of it lives (or would have lived) on one of them. True if it was touched.
  bool OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);

  void WhenSettled(Waiter waiter);

  // The data goes now, the record stays: later uses see deleted(). Told to the listener; state and waiters do not change.
  void Delete();
  // The data was consumed by a computation: as Delete, but there is nothing for the listener to free.
  void Donate();
  bool deleted() const { return deleted_; }
  // As Delete for the listener; but the array is what it was, an error as a rule.
  void Free() { Release(); }

 private:
  void Settle(State state, absl::Status status);
  void Release();

  const ArrayId id_;
  const SessionId owner_;
  const std::shared_ptr<const ArraySpec> spec_;
  Listener* listener_;  // null once it has heard
  int32_t missing_;
  State state_;
  bool deleted_ = false;
  absl::Status status_;
  std::vector<Waiter> waiters_;
};

// OK once all arrays are ready, else the first error in the order of `arrays`, once all have settled. Runs `done` exactly once
// (LA-1).
void WhenAllSettled(absl::Span<const LogicalArray::Ref> arrays, LogicalArray::Waiter done);

}  // namespace pw::buffers
