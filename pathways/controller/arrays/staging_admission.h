// StagingAdmission: decides which host buffers of one client may be received now, so that the controller holds at most a limit of the
// client's bytes.
//
// Three kinds of buffers are held: those that are being received (with their announced size), those that no request has asked for
// yet, and those queued for hosts. StagingAdmission counts the first; its owner passes in the others. A buffer that does not fit waits,
// first come, first served, and is not read from the network meanwhile: the client is slowed, not refused.
//
// Why no buffer waits for ever. Receiving ends when the client has sent the bytes or disconnects. The queue for a host ends when
// the bytes leave or the host is lost. A buffer that no request has asked for leaves when its request comes. Stock clients send
// requests without waiting for their stores. A client that sends a request only when more data has been received than fits would
// wait for itself. Stalled reports this, and after a while the owner gives up on the buffer.
//
// Invariants:
//   SR-1  admitting keeps held <= limit. Exception: one buffer at a time, if a request waits for it and nothing else can make
//         room
//   SR-2  a callback is handed out once, by Admit, FailFirst or DropAll
//
// Pure: the owner runs the callbacks. Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/controller/session.h"

namespace pw::controller {

// The advice in errors about too little room.
inline constexpr char kRaiseStagedLimit[] =
    "start the controller with a higher --staged-limit (PATHWAYS_STAGED_LIMIT for a cluster that the Python package starts)";

class StagingAdmission {
 public:
  explicit StagingAdmission(int64_t limit) : limit_(limit) {}

  // RESOURCE_EXHAUSTED if the buffer is larger than the limit; ALREADY_EXISTS if it has been announced and has not ended.
  absl::Status Check(Handle handle, int64_t bytes) const;
  // Adds a buffer to the queue. `admitted` is handed out when there is room. REQUIRES: Check is OK.
  void Announce(Handle handle, int64_t bytes, StatusCallback admitted);
  // Ends the receiving of an admitted buffer, complete or not. Returns false, and does nothing, if it was not admitted.
  bool End(Handle handle);

  // Bytes that the owner holds besides those that are being received.
  struct Held {
    int64_t unasked = 0;  // received, and no request has asked for them
    int64_t queued = 0;   // on their way to hosts
  };
  // Returns the callbacks of the buffers that are admitted now. `needed`: whether a request waits for the buffer.
  std::vector<StatusCallback> Admit(const Held& held, absl::FunctionRef<bool(Handle)> needed);

  // Returns whether buffers wait and only a request of the client can make room.
  bool Stalled(const Held& held) const { return !waiting_.empty() && receiving_bytes_ == 0 && held.queued == 0; }
  StatusCallback FailFirst();  // REQUIRES: waiting() > 0
  std::vector<StatusCallback> DropAll();

  size_t waiting() const { return waiting_.size(); }
  int64_t receiving_bytes() const { return receiving_bytes_; }
  int64_t limit() const { return limit_; }
  // Statistics: the most bytes held after an Admit, and the number of buffers that were not admitted at once.
  int64_t peak_bytes() const { return peak_bytes_; }
  int64_t held_back() const { return held_back_; }

 private:
  struct Waiting {
    Handle handle;
    int64_t bytes;
    StatusCallback admitted;
    bool counted = false;  // in held_back_
  };
  StatusCallback Take(std::deque<Waiting>::iterator it);

  const int64_t limit_;
  absl::flat_hash_map<Handle, int64_t> announced_;  // the bytes of a buffer that is being received, -1 for one that waits
  int64_t receiving_bytes_ = 0;
  std::deque<Waiting> waiting_;
  int64_t peak_bytes_ = 0;
  int64_t held_back_ = 0;
};

}  // namespace pw::controller
