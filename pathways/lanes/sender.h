// Sender: the queue of bytes that one end of a lane sends, one name after another (receiver.h). It passes them as shared memory
// where both ends can (LaneEnd::HandOver). Otherwise it sends them in parts, as fast as the lane takes them. client::Lanes sends
// host buffers with it, worker::ClientLanes fetched arrays. CallBytes sends the bytes of host calls that are too large for their
// message: always in parts, because they must not come before the message.
//
// Sender holds the bytes until it has passed them to the lane. If the lane breaks they may not have arrived: the owner keeps them
// until the other end has them, and adds them again. Strand-confined.
#pragma once

#include <cstdint>
#include <deque>

#include "pathways/base/memory/bytes.h"
#include "pathways/lanes/lane_end.h"

namespace pw::lanes {

class Sender {
 public:
  enum class Names { kBuffers, kFetches, kCalls };  // the field of LaneBytes that names the bytes
  explicit Sender(Names names) : names_(names) {}

  // Queues the bytes from `offset` on. `data` holds all bytes of the name. REQUIRES: offset < data.size().
  void Add(uint64_t name, Bytes data, size_t offset) { queue_.push_back({name, std::move(data), offset}); }
  // Removes the bytes of the name that have not been sent.
  void Drop(uint64_t name);
  void Clear() { queue_.clear(); }
  // Sends until the queue is empty or the lane is full. Called after Add, and on OnLaneWritable.
  void Pump(LaneEnd& lane);
  bool empty() const { return queue_.empty(); }

 private:
  struct Sending {
    uint64_t name;
    Bytes data;
    size_t offset;
  };
  void SetName(uint64_t name, ::pathways::v1::LaneBytes* bytes) const;

  const Names names_;
  std::deque<Sending> queue_;
};

}  // namespace pw::lanes
