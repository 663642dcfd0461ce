// LinkFlow: what waits for one other host, and how much may be on its way there. Frames with tuples are sent while less than a
// window of them has not been taken in by the receiver; it says so in the frames that it sends back (Frame.consumed_*), so
// neither the transport, nor the receiver's strand, ever holds more than a window. Each lane has its own window, and keeps its
// order.
//
// Invariants:
//   LF-1  at most a window and one frame of a lane are on their way
//   LF-2  a receiver that goes on taking in never leaves a sender waiting: credit is owed at the latest after a quarter of a
//         window, and travels in frames that wait for nobody
// Pure. Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "pathways/dataflow/frame.h"

namespace pw::dataflow {

struct FlowKnobs {
  size_t window_bytes = 4 << 20;        // of a lane, on its way to one host
  size_t high_water_bytes = 4 << 20;    // waiting for one host: good operators stop here
  size_t hard_limit_bytes = 256 << 20;  // waiting for one host: what is beyond is refused
};

class LinkFlow {
 public:
  explicit LinkFlow(const FlowKnobs& knobs) : window_(knobs.window_bytes) {}

  // As a sender.
  void Push(bool critical, FrameBuilder frame) {
    Lane& lane = lanes_[critical];
    lane.waiting_bytes += frame.bytes();
    lane.waiting.push_back(std::move(frame));
  }
  // The next frame of a lane that may leave. What it takes on the wire is reported by Sent, if it carries tuples.
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

  // As a receiver.
  void Consumed(bool critical, size_t bytes) { lanes_[critical].owed += bytes; }
  bool OwesMuch() const { return lanes_[0].owed >= window_ / 4 || lanes_[1].owed >= window_ / 4; }
  // (critical, bulk)
  std::pair<uint64_t, uint64_t> TakeOwed() { return {std::exchange(lanes_[1].owed, 0), std::exchange(lanes_[0].owed, 0)}; }

  // Someone was told that there is no room.
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
