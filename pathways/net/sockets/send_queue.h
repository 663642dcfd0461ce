// The send queue of one connection, and the batches in which frames leave it.
//
// SendQueue holds the connection's two lanes (transport.h): urgent frames overtake queued bulk frames. WriteBatch lays out a few frames
// for gathered writes (sendmsg): length prefixes and small pieces are copied into one buffer, large pieces are referenced. Both are
// pure. StreamWriter, their only user, adds the socket and the lock.
//
// Invariants:
//   SQ-1  frames leave a lane in the order of Push
//   SQ-2  Take returns urgent frames before bulk frames, and stops at kBatchBytes or kBatchFrames. An urgent frame therefore waits for
//         bulk frames of at most one batch: kBatchBytes plus the frame that crossed that limit
//   SQ-3  the memory of a piece is held until every byte of its batch has been written
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/transport.h"

namespace pw::net {

struct OutFrame {
  std::string header;
  std::vector<Bytes> payload;
  size_t payload_bytes = 0;
  Lane lane = Lane::kUrgent;

  size_t size() const { return header.size() + payload_bytes; }
};

class SendQueue {
 public:
  static constexpr size_t kBatchBytes = 256 << 10;
  static constexpr size_t kBatchFrames = 512;

  void Push(OutFrame frame);
  bool empty() const { return urgent_.empty() && bulk_.empty(); }
  // Moves the next frames to `out`. REQUIRES: `out` is empty.
  void Take(std::vector<OutFrame>* out);
  // Removes and returns all frames of the bulk lane: a connection that closes drops them.
  std::deque<OutFrame> TakeBulk() { return std::exchange(bulk_, {}); }

 private:
  std::deque<OutFrame> urgent_;
  std::deque<OutFrame> bulk_;
};

class WriteBatch {
 public:
  WriteBatch();

  // Takes `frames` and lays them out. REQUIRES: done()
  void Load(std::vector<OutFrame> frames);
  bool done() const { return next_ == pieces_.size(); }
  // Returns the pieces left to write, at most as many as one system call takes.
  absl::Span<iovec> Pending();
  // Removes the first `written` bytes from the pieces left to write.
  void Advance(size_t written);
  // Bytes of bulk frames in this batch.
  size_t bulk_bytes() const { return bulk_bytes_; }
  // Releases the frames. Returns their vector, empty, for reuse by the next Take.
  std::vector<OutFrame> Clear();

 private:
  void AddCopied(const void* data, size_t size);
  void AddPiece(const void* data, size_t size);
  void AddFrame(const OutFrame& frame);

  std::vector<OutFrame> frames_;
  std::string staging_;  // never grows beyond its reserved capacity: pieces_ point into it
  std::vector<iovec> pieces_;
  size_t next_ = 0;
  size_t bulk_bytes_ = 0;
};

}  // namespace pw::net
