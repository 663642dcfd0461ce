// CallBytes: the messages and bytes of host calls that the ends of a lane exchange (proto/pathways/v1/lane.proto). Operands go
// one way, results the other. client::HostCalls has one for each lane, worker::LaneCalls one for each client.
//
// Send passes a message and its bytes to the lane, and keeps both until Forget, which the owner calls when the other end has sent
// Taken. After a lane has broken, Resume sends all kept messages on the next one. For an incoming message whose bytes follow it,
// Expect sets memory aside for them, and Add returns them when they are complete.
//
// Strand-confined.
//
// Invariants:
//   YB-1  messages leave in the order of Send, and in Resume in that of the calls' numbers; bytes follow their message
//   YB-2  bytes for which the owner has not called Expect are ignored: they belong to a call that has ended or is complete
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/lanes/receiver.h"
#include "pathways/lanes/sender.h"

namespace pw::lanes {

class CallBytes {
 public:
  static constexpr size_t kInMessage = 64 << 10;  // up to this size, the bytes go as the payload of the message

  // `lane`: null while there is none. REQUIRES: nothing is kept for this call.
  void Send(uint64_t call, ::pathways::v1::LaneMessage message, Bytes data, LaneEnd* lane);
  bool keeps(uint64_t call) const { return kept_.contains(call); }
  void Forget(uint64_t call);
  void Pump(LaneEnd& lane) { sender_.Pump(lane); }
  void Resume(LaneEnd& lane);
  // The lane is gone: drops the parts of incomplete bytes, which the other end sends again.
  void LaneGone();
  void Clear();

  // RESOURCE_EXHAUSTED: there is no memory. REQUIRES: not expected yet, and bytes > 0.
  absl::Status Expect(uint64_t call, size_t bytes, BlockCache& blocks);
  void Drop(uint64_t call) { receiver_->Drop(call); }
  // Returns all bytes of the call after their last part. INVALID_ARGUMENT: the part is not the next one.
  absl::StatusOr<std::optional<Bytes>> Add(const ::pathways::v1::LaneBytes& bytes, Bytes part);

 private:
  struct Kept {
    ::pathways::v1::LaneMessage message;
    Bytes data;
  };
  void Pass(uint64_t call, const Kept& kept, LaneEnd& lane);

  std::map<uint64_t, Kept> kept_;
  Sender sender_{Sender::Names::kCalls};
  std::optional<Receiver> receiver_{std::in_place};  // always there: a Receiver cannot be assigned
};

// Joins the operands of a call, or its results. RESOURCE_EXHAUSTED: they are more than kCallBytes, or there is no memory.
absl::StatusOr<Bytes> Join(const std::vector<Bytes>& parts);
// Cuts bytes into consecutive pieces of these sizes. INVALID_ARGUMENT: the sizes do not add up to the whole.
absl::StatusOr<std::vector<Bytes>> Cut(const Bytes& bytes, const std::vector<uint64_t>& sizes);
// Returns the sum, or nullopt if it is more than kCallBytes.
std::optional<size_t> SumOfCall(const std::vector<uint64_t>& sizes);

}  // namespace pw::lanes
