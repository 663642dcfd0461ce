// StreamWriter: the sending half of a connection on a socket. Any thread may add; one at a time writes.
//
// The right to write is a token. It is either free (nothing waits to be sent) or held by one owner: a thread inside Run, a task
// on its way to the event loop, or a wait for the socket to take more. Whoever adds a frame while the token is free gets it, and
// either runs or passes it on to the event loop. So nothing is posted while anyone is already at work, and the socket may be
// closed by whoever holds the token.
//
// Invariants:
//   SW-1  at most one thread is inside Run
//   SW-2  the token is free only while the queue is empty
//   SW-3  a frame whose first byte was written is finished before any other
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "pathways/net/send_queue.h"

namespace pw::net {

class StreamWriter {
 public:
  // `fd` is a non-blocking stream socket that stays open while anyone holds the token.
  StreamWriter(int fd, size_t high_water_bytes);

  // True: the caller now holds the token.
  [[nodiscard]] bool Add(OutFrame frame);

  enum class Result {
    kDrained,  // all is written, the token is free
    kMore,     // the budget is spent; the caller still holds the token, as in the cases below
    kBlocked,  // the socket takes no more for now
    kFailed,   // error() says why; nothing more will be sent
    kStopped,  // all is written, and Stop has been called
  };
  // REQUIRES: the caller holds the token.
  Result Run(size_t budget_bytes);
  int error() const { return error_; }

  // Refuses further frames and drops what is queued on the bulk lane; from now on the token is never free again. True: it was
  // free and is now the caller's. False: whoever holds it finds out from Run.
  [[nodiscard]] bool Stop();
  // Lets go of all memory. REQUIRES: the caller holds the token and will not run again.
  void Clear();

  bool CanSendBulk() const;
  // True once after CanSendBulk() said no and the lane has since drained below half of the high-water mark.
  bool TakeBulkWritable() { return bulk_writable_.exchange(false); }

 private:
  enum class Next { kLoaded, kDrained, kStopped };
  Next NextBatch();

  const int fd_;
  const size_t high_water_;

  mutable std::mutex mu_;
  SendQueue queue_;                     // guarded by mu_
  bool token_held_ = false;             // guarded by mu_
  bool stopped_ = false;                // guarded by mu_
  mutable bool bulk_waiter_ = false;    // guarded by mu_
  std::atomic<size_t> bulk_bytes_ = 0;  // written under mu_; queued or in the batch
  std::atomic<bool> bulk_writable_ = false;

  // Of the holder of the token.
  WriteBatch batch_;
  std::vector<OutFrame> spare_;
  int error_ = 0;
};

}  // namespace pw::net
