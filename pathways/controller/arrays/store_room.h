// StoreRoom: which host buffers of one client may be received now, so that what the controller holds of its data stays below a
// limit.
//
// Held is what has been admitted and not come yet (in full: as announced), what has come and no request has asked for, and what
// waits to leave for hosts. The first is counted here, the rest is the owner's to tell. What does not fit waits, first come first
// served, and is not read from the network meanwhile: the client is braked, not refused.
//
// Why nothing waits for ever. What is being received ends by itself (the client sends it, or goes), and what is queued for hosts
// leaves or its host is lost. What no request has asked for leaves when the request comes, and requests never wait for data:
// stock clients send them without waiting for their stores. Only a client that holds back a request until more of its data has
// come than there is room for could wait for itself: Stalled says so, and its owner gives up on it after a while.
//
// Invariants:
//   SR-1  admitting keeps held <= limit, but for one buffer at a time that a request waits for while nothing else can make room
//   SR-2  a callback is handed out once, by Admit, FailFirst or DropAll
//
// Pure but for the callbacks, which are the owner's to run. Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/controller/session.h"

namespace pw::controller {

// What those are told who need more room.
inline constexpr char kRaiseStagedLimit[] =
    "start the controller with a higher --staged-limit (PATHWAYS_STAGED_LIMIT for a cluster that the Python package starts)";

class StoreRoom {
 public:
  explicit StoreRoom(int64_t limit) : limit_(limit) {}

  // RESOURCE_EXHAUSTED if no room will ever do, ALREADY_EXISTS.
  absl::Status Check(Handle handle, int64_t bytes) const;
  // `admitted` is handed out when there is room. REQUIRES: Check is OK.
  void Announce(Handle handle, int64_t bytes, StatusCallback admitted);
  // It has come, or never will. False, and nothing, if it was not admitted.
  bool End(Handle handle);

  // What the owner holds besides, in bytes.
  struct Held {
    int64_t unasked = 0;  // come, and no request has asked for it
    int64_t queued = 0;   // on its way to hosts
  };
  // Those whose turn has come. `needed`: a request waits for this one.
  std::vector<StatusCallback> Admit(const Held& held, absl::FunctionRef<bool(Handle)> needed);

  // Some wait, and only a request of the client can make room.
  bool Stalled(const Held& held) const { return !waiting_.empty() && receiving_bytes_ == 0 && held.queued == 0; }
  StatusCallback FailFirst();  // REQUIRES: waiting() > 0
  std::vector<StatusCallback> DropAll();

  size_t waiting() const { return waiting_.size(); }
  int64_t receiving_bytes() const { return receiving_bytes_; }
  int64_t limit() const { return limit_; }
  // For those who count: the most that was held after an Admit, and how many buffers were not admitted at once.
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
  absl::flat_hash_map<Handle, int64_t> announced_;  // bytes of those that are being received, -1 of those that wait
  int64_t receiving_bytes_ = 0;
  std::deque<Waiting> waiting_;
  int64_t peak_bytes_ = 0;
  int64_t held_back_ = 0;
};

}  // namespace pw::controller
