// A shard: the part of an array that lives on one device of this host, from the command that will make it to the last use of it.
//
// Names (array id, shard index) refer to shards through the object store; commands under way hold them directly. Because a
// command turns names into shards when it arrives, a later release or reuse of a name cannot hurt it. Several names may mean one
// shard (aliases).
//
//   pending ──SetLive──► live ──SetReady──► ready          live: there is a buffer; the device may still be filling it
//      └──────────SetFailed──────┴──► failed
//
// Invariants:
//   SD-1  a shard leaves pending once, and settles (ready or failed) once
//   SD-2  its memory is charged from SetLive to the end of its life, or to Consume; not while it is moved out. What several shards
//         have in one buffer (Share) is charged once, until the last of them has let go of it
//   SD-3  what a command is going to take over is not shared (promised), and what is shared is not taken over
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/device/device.h"
#include "pathways/worker/memory_ledger.h"

namespace pw::worker {

class Shard : public std::enable_shared_from_this<Shard> {
 public:
  using Callback = absl::AnyInvocable<void() &&>;
  enum class State { kPending, kLive, kReady, kFailed };

  Shard(std::shared_ptr<MemoryLedger> ledger, int device, SessionId session)
      : ledger_(std::move(ledger)), device_(device), session_(session) {}
  ~Shard();
  Shard(const Shard&) = delete;
  // A shard that has failed from the start.
  static std::shared_ptr<Shard> Failed(absl::Status error);

  State state() const { return state_; }
  bool pending() const { return state_ == State::kPending; }
  bool failed() const { return state_ == State::kFailed; }
  bool settled() const { return state_ == State::kReady || state_ == State::kFailed; }
  const absl::Status& error() const { return error_; }
  int device() const { return device_; }
  SessionId session() const { return session_; }
  int64_t bytes() const { return contents_ == nullptr ? 0 : contents_->bytes; }
  // The contents lie in host memory at present, and would take so many bytes on the device (worker/spill.h). 0: they do not.
  int64_t moved_out() const { return moved_bytes_; }
  // Null while pending, after failure and after Consume.
  device::DeviceBuffer* buffer() const { return contents_ == nullptr ? nullptr : contents_->buffer.get(); }

  void SetLive(std::unique_ptr<device::DeviceBuffer> buffer, int64_t bytes);
  // Live, with the buffer of another, which stays that one's too. REQUIRES: it has one, on this device; neither is promised.
  void Share(const Shard& other);
  bool shared() const { return contents_ != nullptr && contents_.use_count() > 1; }
  void SetReady();
  void SetFailed(absl::Status error);
  // The contents move to host memory, where `buffer` has them; and back. REQUIRES: ready.
  void MoveOut(std::unique_ptr<device::DeviceBuffer> buffer);
  void MoveBack(std::unique_ptr<device::DeviceBuffer> buffer);
  // An execution has taken the buffer over.
  void Consume();
  // As Consume; the buffer goes to the caller. REQUIRES: !shared().
  std::unique_ptr<device::DeviceBuffer> Take();

  // Called once when the shard has left pending, or now if it has.
  void OnLive(Callback callback);
  // Called once when the shard is ready or failed, or now if it is.
  void OnSettled(Callback callback);

  uint64_t last_used = 0;             // by which command, as Hazards counts them
  bool promised = false;              // a command that has come takes the buffer over
  bool stays = false;                 // it cannot be moved out; kept by Spill
  int names = 0;                      // how many names mean this shard; kept by ObjectStore
  int parked_readers = 0;             // how many parked commands will read it; kept by Hazards
  std::vector<Callback> when_unread;  // who waits for parked_readers to become 0; kept by Hazards

 private:
  // On the device, while bytes is not 0.
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

// What elements of this type and shape occupy on a device.
int64_t DeviceBytes(buffers::DType dtype, const device::Dims& dims);

}  // namespace pw::worker
