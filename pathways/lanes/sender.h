// Sender: bytes that leave on a lane, one name after another, in parts, as fast as the lane takes them.
//
// It keeps what it was given until it has handed it to the lane; whoever may have to send it again keeps it too. Strand-confined.
#pragma once

#include <cstdint>
#include <deque>

#include "pathways/base/bytes.h"
#include "pathways/lanes/lane_end.h"

namespace pw::lanes {

class Sender {
 public:
  enum class Names { kBuffers, kFetches };
  explicit Sender(Names names) : names_(names) {}

  // From `offset` on. REQUIRES: offset < data.size().
  void Add(uint64_t name, Bytes data, size_t offset) { queue_.push_back({name, std::move(data), offset}); }
  // The rest of it is not sent.
  void Drop(uint64_t name);
  void Clear() { queue_.clear(); }
  void Pump(LaneEnd& lane);
  bool empty() const { return queue_.empty(); }

 private:
  struct Sending {
    uint64_t name;
    Bytes data;
    size_t offset;
  };
  const Names names_;
  std::deque<Sending> queue_;
};

}  // namespace pw::lanes
