// BulkSender: large host buffers on their way to one host, in chunks on the bulk lane.
//
// Sends while the lane has room, so that the sink queues at most the lane's high-water mark and one chunk. Sessions take
// turns, chunk by chunk; the transfers of one session go one after another. Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/transport.h"

namespace pw::controller {

inline constexpr size_t kChunkBytes = 1 << 20;

class BulkSender {
 public:
  // `sink` outlives this object. Calls `sent` when all bytes of a transfer have been handed to the sink.
  BulkSender(net::FrameSink* sink, std::function<void(uint64_t transfer)> sent) : sink_(sink), sent_(std::move(sent)) {}

  void Enqueue(SessionId session, uint64_t transfer, Bytes data);
  void DropSession(SessionId session);
  // Sends chunks while the lane has room. Called by Enqueue, and by the owner when the lane has drained.
  void Pump();
  size_t queued_bytes() const { return queued_bytes_; }

 private:
  struct Transfer {
    uint64_t name;
    Bytes data;
    size_t offset = 0;
  };
  void SendChunk(SessionId session, Transfer& transfer);

  net::FrameSink* const sink_;
  const std::function<void(uint64_t)> sent_;
  std::map<SessionId, std::deque<Transfer>> queues_;  // none is empty
  SessionId last_;                                    // the session that sent the last chunk
  size_t queued_bytes_ = 0;
};

}  // namespace pw::controller
