// ResumableLink: one end of a stream of frames, on both lanes, that outlives its connections. Frames that are sent while there is no connection wait
// here. When a connection has replaced a broken one, each end tells what the other one has not received.
//
// The two ends of the link between the controller and a worker are its users (worker.proto). They make the connections, prove who they are, and
// carry the counts.
//
// Numbers. A connection delivers the frames of a lane in order (TR-1), so no frame carries its number: each end counts those of each lane. A frame
// may be beside the stream: heartbeats, and what begins a connection. It is sent on the connection itself, bears a mark, and is not counted.
//
// Acknowledgements. The count of received frames goes with a frame that is sent anyway, and only after many frames or bytes; heartbeats carry it too.
// After still more, a frame of its own does.
//
// A link adds to a header only fields that the messages of both directions have (kReceivedField, ...).
//
// A link that nothing can break (a Unix socket) is not resumable: then this adds nothing, and keeps nothing.
//
// Invariants:
//   RL-1  frames of a lane reach the other end in the order of Send, each once (RS-1)
//   RL-2  at most kMostBulkBytes, and one frame, are kept of the bulk lane, if producers ask CanSendBulk; the owner limits kept_bytes()
//   RL-3  while frames are told again, at most kWindowBytes of each lane are under way, so heartbeats need not wait for all of them
// Strand-confined, but for received(). The connection must outlive its use here: until Lose or Resume.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/bytes.h"
#include "pathways/net/resumable_stream.h"
#include "pathways/net/transport.h"

namespace pw::net {

class ResumableLink final : public FrameSink {
 public:
  // Numbers of frames of each lane.
  struct Counts {
    uint64_t urgent = 0;
    uint64_t bulk = 0;
  };
  static constexpr int kReceivedField = 3;  // a message with the fields 1, urgent, and 2, bulk, both uint64
  static constexpr int kBesideField = 4;    // bool: the frame is beside the stream
  static constexpr int kBulkField = 5;      // bool: the frame is of the bulk lane
  static constexpr size_t kMostBulkBytes = size_t{32} << 20;
  static constexpr size_t kWindowBytes = size_t{4} << 20;

  ResumableLink(Connection* connection, bool resumable) : connection_(connection), resumable_(resumable) {}

  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override;
  using FrameSink::Send;
  bool CanSendBulk() const override;

  // A frame of the stream has arrived, of this size. Sends an acknowledgement if one is due.
  void Receive(Lane lane, size_t bytes);
  // How many frames have arrived. Any thread.
  Counts received() const { return {urgent_received_.load(), bulk_received_.load()}; }
  // The other end has received so many frames. Bulk frames may have got room.
  absl::Status Acknowledge(Counts counts);

  // The connection has broken: frames wait for the next one.
  void Lose() { connection_ = nullptr; }
  // A connection, whose other end has received so many frames, replaces the one before, if there is still one. TellAgain: sends on it what that end
  // has not received.
  absl::Status Resume(Connection* connection, Counts received);
  void TellAgain();

  bool away() const { return connection_ == nullptr; }
  bool resumable() const { return resumable_; }
  // Whether the other end is known to have received a frame.
  bool heard() const { return heard_; }
  size_t kept_bytes() const { return urgent_.kept_bytes() + bulk_.kept_bytes(); }
  size_t kept_frames() const { return urgent_.kept_messages() + bulk_.kept_messages(); }

 private:
  void SendUnsent(ResumableStream& stream, Lane lane, size_t window);
  ResumableStream& StreamOf(Lane lane) { return lane == Lane::kBulk ? bulk_ : urgent_; }
  uint64_t frames_owed() const;
  void AddReceived(std::string* header);

  Connection* connection_;  // null: away
  const bool resumable_;
  bool heard_ = false;
  ResumableStream urgent_, bulk_;
  std::atomic<uint64_t> urgent_received_ = 0, bulk_received_ = 0;  // as the streams have them
  Counts told_;                                                    // the counts that were sent last
  size_t owed_bytes_ = 0;                                          // of frames that have arrived since
};

}  // namespace pw::net
