// Shard: the part of an array that lives on one device of this host, from the command that will create it to its last use.
//
// Names (array id, shard index) refer to shards through the object store; running commands hold shards directly. A command resolves its
// names when it arrives, so a later release or reuse of a name cannot affect it. A shard may have several names (aliases).
//
//   pending ──SetLive──► live ──SetReady──► ready          live: there is a buffer; the device may still be filling it
//      └──────────SetFailed──────┴──► failed
//
// Invariants:
//   SD-1  a shard leaves pending once, and settles (ready or failed) once
//   SD-2  its memory is charged from SetLive until its destruction or Consume, except while it is moved out. A buffer that several shards
//         share (Share) is charged once, until the last of them lets go of it
//   SD-3  a buffer that a command will take over (promised) is not shared, and a shared one is not taken over
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/device/device.h"
#include "pathways/worker/store/memory_ledger.h"

namespace pw::worker {

class Shard : public std::enable_shared_from_this<Shard> {
 public:
  using Callback = absl::AnyInvocable<void() &&>;
  enum class State { kPending, kLive, kReady, kFailed };

  Shard(std::shared_ptr<MemoryLedger> ledger, int device, SessionId session)
      : ledger_(std::move(ledger)), device_(device), session_(session) {}
  ~Shard();
  Shard(const Shard&) = delete;
  // Returns a shard that has failed from the start.
  static std::shared_ptr<Shard> Failed(absl::Status error);

  State state() const { return state_; }
  bool pending() const { return state_ == State::kPending; }
  bool failed() const { return state_ == State::kFailed; }
  bool settled() const { return state_ == State::kReady || state_ == State::kFailed; }
  const absl::Status& error() const { return error_; }
  int device() const { return device_; }
  SessionId session() const { return session_; }
  int64_t bytes() const { return contents_ == nullptr ? 0 : contents_->bytes; }
  // If the contents are in host memory (worker/store/spill.h): their size on the device. Else 0.
  int64_t moved_out() const { return moved_bytes_; }
  // Null while pending, after failure and after Consume.
  device::DeviceBuffer* buffer() const { return contents_ == nullptr ? nullptr : contents_->buffer.get(); }

  void SetLive(std::unique_ptr<device::DeviceBuffer> buffer, int64_t bytes);
  // Makes this shard live with the buffer of another; both keep it. REQUIRES: the other has one, on this device; neither is promised.
  void Share(const Shard& other);
  bool shared() const { return contents_ != nullptr && contents_.use_count() > 1; }
  void SetReady();
  void SetFailed(absl::Status error);
  // MoveOut replaces the contents by a copy in host memory (`buffer`), MoveBack by a copy on the device. REQUIRES: ready.
  void MoveOut(std::unique_ptr<device::DeviceBuffer> buffer);
  void MoveBack(std::unique_ptr<device::DeviceBuffer> buffer);
  // Drops the buffer: an execution has taken it over.
  void Consume();
  // Like Consume, but returns the buffer. REQUIRES: !shared().
  std::unique_ptr<device::DeviceBuffer> Take();

  // Forgets the names and uses of a Worker that is gone. REQUIRES: settled.
  void Leave() {
    names = parked_readers = 0;
    last_used = 0;
    promised = false;
    when_unread.clear();
  }

  // Calls `callback` once when the shard has left pending, or now if it has.
  void OnLive(Callback callback);
  // Calls `callback` once when the shard is ready or failed, or now if it is.
  void OnSettled(Callback callback);

  uint64_t last_used = 0;             // the number of the command, as Hazards counts them
  bool promised = false;              // a command has arrived that will take the buffer over
  bool stays = false;                 // cannot be moved out; kept by Spill
  int names = 0;                      // number of names of this shard; kept by ObjectStore
  int parked_readers = 0;             // number of parked commands that will read it; kept by Hazards
  std::vector<Callback> when_unread;  // run when parked_readers becomes 0; kept by Hazards

 private:
  // A buffer. On the device if `bytes` is not 0.
  struct Contents {
    Contents(std::shared_ptr<MemoryLedger> ledger, int device, SessionId session, std::unique_ptr<device::DeviceBuffer> buffer,
             int64_t bytes);
    ~Contents();
    const std::shared_ptr<MemoryLedger> ledger;
    const int device;
    const SessionId session;
    std::unique_ptr<device::DeviceBuffer> buffer;
    const int64_t bytes;
  };
  void Hold(std::unique_ptr<device::DeviceBuffer> buffer, int64_t bytes);
  void Settle();

  const std::shared_ptr<MemoryLedger> ledger_;
  const int device_;
  const SessionId session_;
  State state_ = State::kPending;
  int64_t moved_bytes_ = 0;
  std::shared_ptr<Contents> contents_;
  absl::Status error_;
  std::vector<Callback> on_live_;
  std::vector<Callback> on_settled_;
};

using ShardRef = std::shared_ptr<Shard>;

// Returns the size on a device of an array of this type and shape.
int64_t DeviceBytes(buffers::DType dtype, const device::Dims& dims);

}  // namespace pw::worker
