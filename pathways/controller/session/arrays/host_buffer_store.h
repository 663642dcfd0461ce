// HostBufferStore: the bytes of one client that the controller holds. Either the client sends them, before or after the request that
// names them, or they were fetched for the client to pick up. A buffer is in one of three states (arrays/host_buffers.h).
//
// Arrays are made of buffers (ArrayMaker) and buffers are filled from arrays (ArrayReader). Both call the store, which knows neither.
// StagingAdmission decides which buffers the client may send now.
//
// Invariants:
//   BS-1  a handle is in one state at a time: staged, awaited or filling
//   BS-2  an awaited buffer gets its bytes or an error once; then its hosts, or the cells of its string array, get them
// Strand-confined.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/controller/arrays/host_buffers.h"
#include "pathways/controller/arrays/staging_admission.h"
#include "pathways/controller/session/context/session_context.h"

namespace pw::controller {

class HostBufferStore {
 public:
  // `context` must outlive this.
  explicit HostBufferStore(SessionContext* context);

  // --- for the client (Session) ---
  void Announce(Handle handle, int64_t bytes, StatusCallback admitted);
  void Forget(Handle handle);
  void Fail(Handle handle, absl::Status error);
  absl::Status Store(Handle handle, Bytes data);
  void Lookup(Handle handle, ResultCallback<Bytes> done);
  absl::Status Delete(Handle handle);

  // --- for arrays that are made of buffers ---
  bool IsAwaited(Handle handle) const { return awaited_.contains(handle); }
  bool IsFilling(Handle handle) const { return filling_.contains(handle); }
  // Returns null if the buffer has not arrived. The pointer is valid until the next call of a method that is not const.
  const StagedBuffer* FindStaged(Handle handle) const;
  // Takes the buffer out of the store. NOT_FOUND if it has not arrived.
  absl::StatusOr<Bytes> Take(Handle handle);
  // Promises a buffer to an array. REQUIRES: it has not arrived, and is neither awaited nor filling.
  void Await(Handle handle, AwaitedBuffer awaited) { awaited_[handle] = std::move(awaited); }
  // Drops the buffer now, or when it arrives. Does nothing if it is awaited or filling.
  void Discard(Handle handle);
  // Admits announced buffers. Call when a request may have made room.
  void Admit();

  // --- for arrays that are read into buffers ---
  // Returns OK if a new buffer of this size can be filled.
  absl::Status CheckFill(Handle handle, int64_t bytes) const;
  // `done` runs after EndFill. REQUIRES: CheckFill.
  void BeginFill(Handle handle, StatusCallback done) { filling_[handle].done = std::move(done); }
  // Stores the bytes for the client to pick up. Does nothing if the buffer is not being filled.
  void EndFill(Handle handle, absl::StatusOr<Bytes> result);

  // Call once a tick. `idle`: the client could not send anything: this process was stopped for a while, or the session is suspended.
  void OnTick(absl::Time now, bool idle);
  // Both are called once, at the end of the session; they answer all that waits to be admitted, or to be filled.
  void EndAdmissions(const absl::Status& error);
  void EndFills(const absl::Status& error);

  int64_t bytes() const;  // of buffers in any state
  const StagingAdmission& admission() const { return admission_; }

 private:
  absl::Status CheckStore(Handle handle) const;
  absl::Status TryStore(Handle handle, Bytes data, bool announced);
  StagingAdmission::Held HeldBytes() const;
  void Deliver(AwaitedBuffer awaited, const absl::StatusOr<Bytes>& data);
  void Abort(const AwaitedBuffer& awaited, const absl::Status& error);
  void AnswerFilling(FillingBuffer filling, const absl::StatusOr<Bytes>& result);

  SessionContext* const context_;
  Fabric* const fabric_;
  absl::flat_hash_map<Handle, StagedBuffer> staged_;
  int64_t unasked_bytes_ = 0, fetched_bytes_ = 0;  // the bytes of `staged_`: from the client, from hosts
  StagingAdmission admission_;
  std::optional<absl::Time> stalled_since_;
  absl::flat_hash_map<Handle, AwaitedBuffer> awaited_;
  absl::flat_hash_map<Handle, FillingBuffer> filling_;
};

}  // namespace pw::controller
