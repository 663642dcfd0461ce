// StreamWriter: the sending half of a connection on a socket. Any thread may add frames; one thread at a time writes.
//
// The right to write is a token. The token is free if nothing waits to be sent. Otherwise it has one holder: a thread inside Run, a
// task posted to the event loop, or a wait for the socket to become writable. A thread that adds a frame while the token is free
// receives it, and either calls Run or passes it on to the event loop. So no task is posted while a holder is at work, and the holder
// may close the socket.
//
// Invariants:
//   SW-1  at most one thread is inside Run
//   SW-2  the token is free only while the queue is empty and nothing waits in the channel
//   SW-3  a frame whose first byte was written is finished before any other
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "pathways/net/sockets/channel.h"
#include "pathways/net/sockets/send_queue.h"

namespace pw::net {

class StreamWriter {
 public:
  // `channel` outlives the writer; its socket stays open while the token is held.
  StreamWriter(Channel* channel, size_t high_water_bytes);

  // Queues `frame`. Returns true if the caller now holds the token.
  [[nodiscard]] bool Add(OutFrame frame);

  enum class Result {
    kDrained,  // all is written; the token is free
    kMore,     // the budget is spent; the caller still holds the token, as in the cases below
    kBlocked,  // the socket accepts no more for now
    kFailed,   // error() is the errno; nothing more will be sent
    kStopped,  // all is written, and Stop has been called
  };
  // Writes queued frames until the queue is empty or `budget_bytes` are written. REQUIRES: the caller holds the token.
  Result Run(size_t budget_bytes);
  int error() const { return error_; }

  // Refuses further frames and drops the bulk lane; from now on the token is never free again. Returns true if the token was free: the
  // caller now holds it. Returns false otherwise: Run then tells the holder (kStopped).
  [[nodiscard]] bool Stop();
  // Releases all memory. REQUIRES: the caller holds the token and will not run again.
  void Clear();

  bool CanSendBulk() const;
  // Returns true once after CanSendBulk() returned false and the lane has drained to half of the high-water mark.
  bool TakeBulkWritable() { return bulk_writable_.exchange(false); }

 private:
  enum class Next { kLoaded, kDrained, kStopped };
  Next NextBatch();
  Result Stopped(int error);

  Channel* const channel_;
  const size_t high_water_;

  mutable std::mutex mu_;
  SendQueue queue_;                     // guarded by mu_
  bool token_held_ = false;             // guarded by mu_
  bool stopped_ = false;                // guarded by mu_
  mutable bool bulk_waiter_ = false;    // guarded by mu_
  std::atomic<size_t> bulk_bytes_ = 0;  // written under mu_; queued or in the batch
  std::atomic<bool> bulk_writable_ = false;

  // Used by the holder of the token.
  WriteBatch batch_;
  std::vector<OutFrame> spare_;
  int error_ = 0;
};

}  // namespace pw::net
