// Stream: a connection over a socket; AsioConnection is the user's end of it.
//
// The user owns an AsioConnection, a thin shell; the Stream behind it is shared with the operations under way on the event loop,
// so it may live a little longer: to hand over the token of the writer, to linger.
//
// Reading belongs to the loop. Writing is StreamWriter's; a frame sent on the loop leaves when the event at hand has been
// handled, which batches the answers to many frames; a small one sent on another thread leaves from there, unless one did just
// before: waking the loop costs more than one system call, and less than many.
//
// Closing, in order: no more frames are taken or delivered; what is urgent goes out if the socket takes it; OnClosed; the socket
// is shut for writing; what still arrives is thrown away until the peer has closed too, or kLinger has passed (closing a socket
// with unread data would destroy what we sent last). After an error, or when the peer closed first, the socket is closed at once.
//
// Invariants, beyond those of transport.h:
//   CN-1  the descriptor is closed on the loop, by the holder of the writer's token: nobody writes to a number that means another
//         file
//   CN-2  no handler method runs inside a call of the user's, on any thread
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "pathways/net/asio.h"
#include "pathways/net/event_loop.h"
#include "pathways/net/framing.h"
#include "pathways/net/handler_gate.h"
#include "pathways/net/socket.h"
#include "pathways/net/stream_writer.h"
#include "pathways/net/transport.h"

namespace pw::net {

struct StreamOptions {
  Limits limits;
  bool inline_sends = true;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // `fd` is connected. Call Open once, before any other thread knows of the stream.
  Stream(std::shared_ptr<EventLoop> loop, Fd fd, std::string peer, const StreamOptions& options);
  ~Stream();
  void Open();

  // The methods of Connection, any thread.
  void Start(Connection::Handler* handler);
  void Send(std::string header, std::vector<Bytes> payload, Lane lane);
  bool CanSendBulk() const { return writer_.CanSendBulk(); }
  void Close(absl::Status reason);
  Counters counters() const;
  const std::string& peer() const { return peer_; }
  // The user's end goes away.
  void Abandon();

 private:
  enum class Ending { kGraceful, kAbrupt };
  using Error = asio::error_code;

  // On the loop.
  void OpenHere();
  void ArmRead();
  void OnReadable();
  bool ReadOnce(size_t* budget);  // false: nothing more for now
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

  const std::shared_ptr<EventLoop> loop_;
  const std::string peer_;
  const StreamOptions options_;
  const int fd_;
  StreamWriter writer_;
  HandlerGate<Connection::Handler> gate_;
  std::atomic<bool> closing_ = false;
  std::atomic<uint64_t> frames_sent_ = 0, bytes_sent_ = 0, frames_received_ = 0, bytes_received_ = 0;

  // Of the holder of the writer's token.
  std::chrono::steady_clock::time_point last_inline_;

  // Of the loop.
  Fd initial_fd_;  // until Open
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer linger_;
  FrameDecoder decoder_;
  uint64_t shutdown_hook_ = 0;
  bool started_ = false;
  bool reading_ = false;       // a wait for input is under way
  bool in_event_ = false;      // handling input: frames sent by the handler leave when it has been handled
  bool flush_due_ = false;     // such a frame waits; the loop holds the token
  bool token_parked_ = false;  // the loop holds the token and nobody runs: blocked, failed, or after the end
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

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace pw::net
