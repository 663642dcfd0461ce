// What waits to be sent on one connection, and the batches in which it leaves.
//
// SendQueue keeps the two lanes. WriteBatch is a few frames laid out for one gathered system call: prefixes and small pieces are
// copied together, large pieces are only pointed at. Both are pure; StreamWriter adds the socket and the lock.
//
// Invariants:
//   SQ-1  frames leave a lane in the order of Push
//   SQ-2  Take gives urgent frames before bulk frames, and stops at kBatchBytes: an urgent frame never waits for more than one
//         batch, which is kBatchBytes and the frame that crossed that line
//   SQ-3  the memory of a piece is held until every byte of its batch has been written
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "pathways/base/bytes.h"
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
  // Moves the next frames to `out`, which is empty.
  void Take(std::vector<OutFrame>* out);
  // Empties the bulk lane.
  std::deque<OutFrame> TakeBulk() { return std::exchange(bulk_, {}); }

 private:
  std::deque<OutFrame> urgent_;
  std::deque<OutFrame> bulk_;
};

class WriteBatch {
 public:
  WriteBatch();

  // Lays out `frames`, which it takes. REQUIRES: done()
  void Load(std::vector<OutFrame> frames);
  bool done() const { return next_ == pieces_.size(); }
  // What is left to write, at most as many pieces as one system call takes.
  absl::Span<iovec> Pending();
  void Advance(size_t written);
  // Bytes of bulk frames in this batch.
  size_t bulk_bytes() const { return bulk_bytes_; }
  // Releases the memory, and returns the empty vector for the next Take.
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
