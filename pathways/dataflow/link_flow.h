// LinkFlow: flow control between this host and one other host: the send queue of each lane, and the credit of both directions.
//
// A sender sends frames with tuples while less than a window of bytes is in flight, that is, sent and not yet consumed by the
// receiver. The receiver returns credit in the frames that it sends back (Frame.consumed_*). So neither the transport nor the
// receiver's strand ever holds much more than a window. Each lane (critical, bulk) has a window of its own, and keeps its order.
//
// Invariants:
//   LF-1  at most a window and one frame of a lane are in flight
//   LF-2  a receiver that goes on consuming never leaves a sender waiting. After a quarter of a window at the latest it owes
//         credit (OwesMuch), and frames without tuples, which carry credit, never wait
// Pure. Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "pathways/dataflow/frame.h"

namespace pw::dataflow {

struct FlowKnobs {
  size_t window_bytes = 4 << 20;        // in flight on one lane to one host
  size_t high_water_bytes = 4 << 20;    // queued for one host: CanSend returns false from here on
  size_t hard_limit_bytes = 256 << 20;  // queued for one host: further tuples are refused
};

class LinkFlow {
 public:
  explicit LinkFlow(const FlowKnobs& knobs) : window_(knobs.window_bytes) {}

  // The sender's side.
  void Push(bool critical, FrameBuilder frame) {
    Lane& lane = lanes_[critical];
    lane.waiting_bytes += frame.bytes();
    lane.waiting.push_back(std::move(frame));
  }
  // Removes and returns the next frame of a lane that may be sent. If it carries tuples, the caller reports its size on the wire
  // to Sent.
  std::optional<FrameBuilder> Pop(bool critical) {
    Lane& lane = lanes_[critical];
    if (lane.waiting.empty() || (lane.on_the_way >= window_ && lane.waiting.front().tuples() > 0)) return std::nullopt;
    FrameBuilder frame = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.waiting_bytes -= frame.bytes();
    return frame;
  }
  void Sent(bool critical, size_t bytes) { lanes_[critical].on_the_way += bytes; }
  void TakenIn(bool critical, uint64_t bytes) {
    size_t& on_the_way = lanes_[critical].on_the_way;
    on_the_way -= bytes < on_the_way ? bytes : on_the_way;
  }
  size_t waiting_bytes(bool critical) const { return lanes_[critical].waiting_bytes; }

  // The receiver's side.
  void Consumed(bool critical, size_t bytes) { lanes_[critical].owed += bytes; }
  bool OwesMuch() const { return lanes_[0].owed >= window_ / 4 || lanes_[1].owed >= window_ / 4; }
  // Returns the credit owed, as (critical, bulk), and resets it.
  std::pair<uint64_t, uint64_t> TakeOwed() { return {std::exchange(lanes_[1].owed, 0), std::exchange(lanes_[0].owed, 0)}; }

  // By lane: whether a shard has been told that the lane has no room.
  bool someone_waits[2] = {false, false};

 private:
  struct Lane {
    std::deque<FrameBuilder> waiting;
    size_t waiting_bytes = 0;
    size_t on_the_way = 0;
    size_t owed = 0;
  };

  const size_t window_;
  Lane lanes_[2];  // bulk, critical
};

}  // namespace pw::dataflow
