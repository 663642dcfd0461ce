// ResumableLink: one end of a stream of frames, on one lane or both, that outlives its connections. Frames sent while there is no
// connection wait here. When a new connection replaces a broken one, each end resends the frames that the other has not received.
//
// The link between the controller and a worker uses one at each end (worker.proto), and so does a link between two workers
// (peer.proto). Its users make the connections, authenticate themselves, and carry the counts.
//
// Numbers. A connection delivers the frames of a lane in order (TR-1), so frames carry no numbers: each end counts the frames of
// each lane. Heartbeats and handshakes are beside the stream: sent on the connection itself, marked, and not counted.
//
// Acknowledgements. After many frames or bytes, the next frame carries the count of received frames; heartbeats carry it, too.
// After still more, a frame of its own carries it. TellReceived sends that frame at once: for users whose frames hold memory that
// the other end waits to reuse.
//
// Lanes::kBulkOnly: all frames are of the bulk lane, so none is marked. Then only frames with an acknowledgement have an addition.
//
// A link adds to a header only fields that the messages of both directions have (kReceivedField, ...).
//
// A link over a Unix socket is not resumable, because no network can break it. Then this class adds nothing and keeps nothing.
//
// Invariants:
//   RL-1  frames of a lane reach the other end in the order of Send, each once (RS-1)
//   RL-2  the bulk lane keeps at most kMostBulkBytes and one frame, if producers ask CanSendBulk; the owner limits kept_bytes()
//   RL-3  while frames are resent, at most kWindowBytes of each lane are under way, so heartbeats need not wait for all of them
// Strand-confined, except received(). The connection must outlive its use here: until Lose or Resume.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/resumable/resumable_stream.h"
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
  static constexpr int kBulkField = 5;      // bool: the frame is of the bulk lane; only if there are both
  static constexpr size_t kMostBulkBytes = size_t{32} << 20;
  static constexpr size_t kWindowBytes = size_t{4} << 20;

  enum class Lanes { kBoth, kBulkOnly };  // the same at both ends

  ResumableLink(Connection* connection, bool resumable, Lanes lanes = Lanes::kBoth)
      : connection_(connection), resumable_(resumable), lanes_(lanes) {}

  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override;
  using FrameSink::Send;
  bool CanSendBulk() const override;

  // Counts an arrived frame of the stream, of this size. Sends an acknowledgement if one is due.
  void Receive(Lane lane, size_t bytes);
  // Acknowledges the frames that have arrived, if any are not acknowledged.
  void TellReceived();
  // Returns the numbers of arrived frames. Any thread.
  Counts received() const { return {urgent_received_.load(), bulk_received_.load()}; }
  // Drops the frames that the other end has received, and sends frames that waited for room.
  absl::Status Acknowledge(Counts counts);

  // Forgets the connection, which has broken: frames wait for the next one.
  void Lose() { connection_ = nullptr; }
  // Forgets the connection and all frames, now and later: the stream will not go on.
  void Abandon();
  // Replaces the connection, if there still is one. `received`: the frames that the other end has received. TellAgain then
  // resends the later frames.
  absl::Status Resume(Connection* connection, Counts received);
  void TellAgain();

  bool away() const { return connection_ == nullptr; }
  bool resumable() const { return resumable_; }
  // Returns whether the other end is known to have received a frame.
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
  const Lanes lanes_;
  bool heard_ = false;
  bool abandoned_ = false;
  ResumableStream urgent_, bulk_;
  std::atomic<uint64_t> urgent_received_ = 0, bulk_received_ = 0;  // copies of the streams' counts, for received()
  Counts told_;                                                    // the counts that were sent last
  size_t owed_bytes_ = 0;                                          // of frames that have arrived since then
};

}  // namespace pw::net
