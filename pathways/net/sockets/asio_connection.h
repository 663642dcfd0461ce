// Stream: a connection over a socket. AsioConnection: the handle that the user of the transport owns.
//
// AsioConnection is a thin shell around a Stream. Operations pending on the event loop share the Stream, so it may outlive the
// AsioConnection while it passes on the writer's token or lingers.
//
// The event loop reads. StreamWriter writes:
//   * A frame sent on the loop's thread leaves when the current event has been handled, which batches the answers to many frames.
//   * A small frame sent on another thread leaves from that thread, unless another frame has just done so. Waking the loop costs
//     more than one system call and less than many.
//
// Closing:
//   1. No more frames are accepted or delivered.
//   2. Queued urgent frames are written as far as the socket accepts them at once.
//   3. OnClosed is called.
//   4. The socket is shut down for writing.
//   5. Incoming bytes are discarded until the peer closes or kLinger passes. Closing a socket with unread bytes would destroy the
//      bytes that we sent last.
// After an error, or when the peer closes first, the socket is closed at once.
//
// Invariants, beyond those of transport.h:
//   AC-1  the descriptor is closed on the loop, by the holder of the writer's token: no thread writes to a descriptor number that
//         has been reused for another file
//   AC-2  no handler method runs inside a call by the user, on any thread
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "pathways/net/framing.h"
#include "pathways/net/handler_gate.h"
#include "pathways/net/sockets/asio.h"
#include "pathways/net/sockets/channel.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/sockets/stream_writer.h"
#include "pathways/net/transport.h"

namespace pw::net {

// A connected socket, the channel agreed with its peer, and the peer's proof.
struct EstablishedSocket {
  Fd fd;
  std::unique_ptr<Channel> channel;
  PeerProof proof;
};

struct StreamOptions {
  Limits limits;
  bool inline_sends = true;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // Call Open once, before the stream is visible to other threads.
  Stream(std::shared_ptr<EventLoop> loop, EstablishedSocket socket, std::string peer, const StreamOptions& options);
  ~Stream();
  void Open();

  // The methods of Connection. Any thread.
  void Start(Connection::Handler* handler);
  void Send(std::string header, std::vector<Bytes> payload, Lane lane);
  bool CanSendBulk() const { return writer_.CanSendBulk(); }
  void Close(absl::Status reason);
  Counters counters() const;
  const std::string& peer() const { return peer_; }
  PeerProof proof() const { return proof_; }
  bool breakable() const { return breakable_; }
  const std::string& own_end() const { return own_end_; }
  // Called when the user destroys the AsioConnection: stops handler calls and closes the stream.
  void Abandon();

 private:
  enum class Ending { kGraceful, kAbrupt };
  using Error = asio::error_code;

  // On the loop.
  void OpenHere();
  void ArmRead();
  void OnInput(Error error);
  void OnReadable();
  bool ReadOnce(size_t* budget);  // false: stop reading for now
  bool Deliver();
  void OnReadEnd(int error);
  void Discard();

  // By the holder of the writer's token.
  bool InlineIsDue();
  void PassToLoop();
  void ContinueWriting();  // on the loop
  void WaitWritable();
  void OnWriteFailed();
  void NotifyBulkWritable();

  void Shut(absl::Status reason, Ending ending);
  void FinishClosing();
  void ReleaseSocket();
  absl::Status Lost(absl::string_view how) const;
  absl::Status LostBy(int error, absl::string_view how) const;

  const std::shared_ptr<EventLoop> loop_;
  const std::string peer_;
  const StreamOptions options_;
  const PeerProof proof_;
  const bool breakable_;
  const std::string own_end_;
  const int fd_;
  const std::unique_ptr<Channel> channel_;
  StreamWriter writer_;
  HandlerGate<Connection::Handler> gate_;
  std::atomic<bool> closing_ = false;
  std::atomic<uint64_t> frames_sent_ = 0, bytes_sent_ = 0, frames_received_ = 0, bytes_received_ = 0;

  // Used by the holder of the writer's token.
  std::chrono::steady_clock::time_point last_inline_;

  // Used on the loop only.
  Fd initial_fd_;  // until Open
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer linger_;
  FrameDecoder decoder_;
  uint64_t shutdown_hook_ = 0;
  bool started_ = false;
  bool reading_ = false;       // a wait for input is pending
  bool in_event_ = false;      // handling input: frames that the handler sends leave at the end of the event
  bool flush_due_ = false;     // such a frame is queued; the loop holds the token
  bool token_parked_ = false;  // the loop holds the token and no write runs: blocked, failed or finished
  bool closed_ = false;
  bool released_ = false;
  Ending ending_ = Ending::kGraceful;
  absl::Status reason_;
  absl::Status write_error_;
};

class AsioConnection : public Connection {
 public:
  explicit AsioConnection(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~AsioConnection() override { stream_->Abandon(); }

  void Start(Handler* handler) override { stream_->Start(handler); }
  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override {
    stream_->Send(std::move(header), std::move(payload), lane);
  }
  bool CanSendBulk() const override { return stream_->CanSendBulk(); }
  void Close(absl::Status reason) override { stream_->Close(std::move(reason)); }
  Counters counters() const override { return stream_->counters(); }
  const std::string& peer() const override { return stream_->peer(); }
  PeerProof proof() const override { return stream_->proof(); }
  bool breakable() const override { return stream_->breakable(); }
  std::string own_end() const override { return stream_->own_end(); }

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace pw::net
