#include "pathways/net/sockets/asio_connection.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::net {
namespace {

// Bytes that one connection reads or writes per turn, before other connections of the loop get theirs.
constexpr size_t kTurnBytes = 2 << 20;
// A frame up to this size may leave from the thread that sends it.
constexpr size_t kInlineBytes = 32 << 10;
// Minimum time between two such sends: the loop batches frequent frames better.
constexpr std::chrono::microseconds kInlineGap{5};
constexpr std::chrono::milliseconds kLinger{1000};

// Returns this end's name; empty for a Unix socket.
std::string OwnEnd(int fd) {
  const SocketAddress local = LocalAddress(fd);
  return local.family() == AF_UNIX ? "" : ToString(FromSocketAddress(local));
}

}  // namespace

Stream::Stream(std::shared_ptr<EventLoop> loop, EstablishedSocket socket, std::string peer, const StreamOptions& options)
    : loop_(std::move(loop)),
      peer_(std::move(peer)),
      options_(options),
      proof_(socket.proof),
      breakable_(LocalAddress(socket.fd.get()).family() != AF_UNIX),
      own_end_(OwnEnd(socket.fd.get())),
      fd_(socket.fd.get()),
      channel_(std::move(socket.channel)),
      writer_(channel_.get(), options.limits.bulk_high_water_bytes),
      initial_fd_(std::move(socket.fd)),
      descriptor_(loop_->io()),
      linger_(loop_->io()),
      decoder_(
          options.limits, FrameDecoder::kDefaultBufferBytes,
          [this](const std::string& header, size_t bytes) {
            Place place;
            gate_.Call([&](Connection::Handler* handler) { place = handler->PlaceFor(header, bytes); });
            return place;
          },
          [this](size_t header_bytes, size_t payload_bytes) {
            absl::Status status;
            gate_.Call([&](Connection::Handler* handler) { status = handler->Admit(header_bytes, payload_bytes); });
            return status;
          }) {}

Stream::~Stream() = default;

void Stream::Open() {
  if (loop_->RunsHere()) {
    OpenHere();  // at once: a Start posted by another thread could overtake a task posted here
  } else {
    loop_->Post([self = shared_from_this()] { self->OpenHere(); });
  }
}

void Stream::OpenHere() {
  Error error;
  descriptor_.assign(fd_, error);
  if (error) {
    Shut(SocketError(error.value(), absl::StrCat("cannot watch the connection to ", peer_)), Ending::kAbrupt);
    return;
  }
  initial_fd_.Release();  // the descriptor owns it now
  shutdown_hook_ = loop_->AddShutdownHook([this] {
    const auto self = shared_from_this();
    shutdown_hook_ = 0;
    Shut(absl::CancelledError(absl::StrCat("the transport of the connection to ", peer_, " was shut down")), Ending::kGraceful);
    if (token_parked_) ReleaseSocket();
  });
}

void Stream::Start(Connection::Handler* handler) {
  loop_->Post([self = shared_from_this(), handler] {
    self->gate_.Attach(handler);
    self->started_ = true;
    if (self->closed_) {
      self->gate_.Call([&](Connection::Handler* h) { h->OnClosed(self->reason_); });
    } else {
      self->ArmRead();
    }
  });
}

Counters Stream::counters() const {
  return {.frames_sent = frames_sent_,
          .bytes_sent = bytes_sent_,
          .frames_received = frames_received_,
          .bytes_received = bytes_received_};
}

absl::Status Stream::Lost(absl::string_view how) const {
  return absl::UnavailableError(absl::StrCat("connection to ", peer_, " ", how));
}

absl::Status Stream::LostBy(int error, absl::string_view how) const {
  absl::Status status = SocketError(error, absl::StrCat("connection to ", peer_, " ", how));
  return error == ECONNRESET || error == EPIPE ? MarkedClosedByPeer(std::move(status)) : status;
}

// ---- reading ----

void Stream::ArmRead() {
  if (reading_ || released_) return;
  reading_ = true;
  if (!closed_ && channel_->may_hold_input()) return loop_->Post([self = shared_from_this()] { self->OnInput({}); });
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](Error error) { self->OnInput(error); });
}

void Stream::OnInput(Error error) {
  reading_ = false;
  if (released_) return;
  if (closed_) {
    Discard();
  } else if (closing_) {
    return;  // Shut is posted; it continues reading if necessary
  } else if (error) {
    OnReadEnd(error.value());
  } else {
    OnReadable();
  }
}

void Stream::OnReadable() {
  in_event_ = true;
  size_t budget = kTurnBytes;
  while (ReadOnce(&budget) && !closed_) {
    if (std::exchange(flush_due_, false)) ContinueWriting();
  }
  in_event_ = false;
  if (std::exchange(flush_due_, false)) ContinueWriting();
  if (!closed_) ArmRead();
}

bool Stream::ReadOnce(size_t* budget) {
  const absl::Span<const iovec> space = decoder_.Space();
  const ssize_t n = channel_->Read(space);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) {
    OnReadEnd(n == 0 ? 0 : errno);
    return false;
  }
  const auto got = static_cast<size_t>(n);
  decoder_.Commit(got);
  if (!Deliver()) return false;
  size_t room = 0;
  for (const iovec& piece : space) room += piece.iov_len;
  *budget -= std::min(*budget, got);
  return got == room && *budget != 0;  // a short read has emptied the socket
}

// Delivers all complete frames. Returns false if reading has ended.
bool Stream::Deliver() {
  while (!closing_.load(std::memory_order_relaxed)) {
    absl::StatusOr<std::optional<Frame>> frame = decoder_.Pop();
    if (!frame.ok()) {
      Shut(absl::Status(frame.status().code(), absl::StrCat("connection to ", peer_, " was closed: ", frame.status().message())),
           Ending::kAbrupt);
      return false;
    }
    if (!frame->has_value()) return true;
    frames_received_.fetch_add(1, std::memory_order_relaxed);
    bytes_received_.fetch_add((*frame)->header.size() + (*frame)->payload.size(), std::memory_order_relaxed);
    gate_.Call([&](Connection::Handler* handler) { handler->OnFrame(*std::move(*frame)); });
  }
  return false;
}

void Stream::OnReadEnd(int error) {
  if (!write_error_.ok()) {
    Shut(write_error_, Ending::kAbrupt);
  } else if (error != 0) {
    Shut(LostBy(error, "was lost"), Ending::kAbrupt);
  } else if (!decoder_.AtBoundary()) {
    Shut(MarkedClosedByPeer(Lost("was closed by the peer in the middle of a frame")), Ending::kAbrupt);
  } else {
    Shut(MarkedClosedByPeer(Lost("was closed by the peer")), Ending::kAbrupt);
  }
}

// ---- writing ----

void Stream::Send(std::string header, std::vector<Bytes> payload, Lane lane) {
  if (closing_.load(std::memory_order_relaxed)) return;
  OutFrame frame{std::move(header), std::move(payload), 0, lane};
  for (const Bytes& piece : frame.payload) frame.payload_bytes += piece.size();
  if (absl::Status fits = CheckOutgoing(peer_, frame.header.size(), frame.payload_bytes, options_.limits); !fits.ok()) {
    Close(std::move(fits));
    return;
  }
  const size_t size = frame.size();
  frames_sent_.fetch_add(1, std::memory_order_relaxed);
  bytes_sent_.fetch_add(size, std::memory_order_relaxed);
  if (!writer_.Add(std::move(frame))) return;
  // The token is ours.
  const bool here = loop_->RunsHere();
  if (here && in_event_) {
    flush_due_ = true;
  } else if (!here && size <= kInlineBytes && InlineIsDue()) {
    if (writer_.Run(1) != StreamWriter::Result::kDrained) PassToLoop();
    if (writer_.TakeBulkWritable()) NotifyBulkWritable();
  } else {
    PassToLoop();
  }
}

bool Stream::InlineIsDue() {
  if (!options_.inline_sends) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_inline_ < kInlineGap) return false;
  last_inline_ = now;
  return true;
}

void Stream::PassToLoop() {
  loop_->Post([self = shared_from_this()] { self->ContinueWriting(); });
}

void Stream::ContinueWriting() {
  if (closed_) {
    FinishClosing();
    return;
  }
  const StreamWriter::Result result = writer_.Run(kTurnBytes);
  if (writer_.TakeBulkWritable()) NotifyBulkWritable();
  switch (result) {
    case StreamWriter::Result::kDrained:
    case StreamWriter::Result::kStopped:  // does not happen: closed_ is set where Stop is called
      return;
    case StreamWriter::Result::kMore:
      return PassToLoop();
    case StreamWriter::Result::kBlocked:
      return WaitWritable();
    case StreamWriter::Result::kFailed:
      return OnWriteFailed();
  }
}

void Stream::WaitWritable() {
  token_parked_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this()](Error) {
    if (self->closed_) return;  // Shut has taken the token
    self->token_parked_ = false;
    self->ContinueWriting();
  });
}

void Stream::OnWriteFailed() {
  token_parked_ = true;
  write_error_ = LostBy(writer_.error(), "was lost while sending");
  if (!started_) {
    Shut(write_error_, Ending::kAbrupt);
    return;
  }
  // The peer may have sent the reason before it closed: read the bytes that have arrived, up to the end of the stream.
  ::shutdown(fd_, SHUT_RD);
}

void Stream::NotifyBulkWritable() {
  loop_->Post([self = shared_from_this()] {
    if (!self->closing_) self->gate_.Call([](Connection::Handler* handler) { handler->OnBulkWritable(); });
  });
}

// ---- closing ----

void Stream::Close(absl::Status reason) {
  if (closing_.exchange(true)) return;
  loop_->Post([self = shared_from_this(), reason = std::move(reason)] { self->Shut(reason, Ending::kGraceful); });
}

void Stream::Abandon() {
  gate_.Detach(loop_->RunsHere());
  Close(absl::CancelledError(absl::StrCat("the connection to ", peer_, " was destroyed")));
}

void Stream::Shut(absl::Status reason, Ending ending) {
  if (closed_) return;
  closed_ = true;
  closing_ = true;
  reason_ = std::move(reason);
  ending_ = ending;
  // Otherwise the token's holder reaches ContinueWriting, which then calls FinishClosing.
  if (writer_.Stop() || token_parked_) FinishClosing();
  gate_.Call([&](Connection::Handler* handler) { handler->OnClosed(reason_); });
}

void Stream::FinishClosing() {
  token_parked_ = true;
  const bool graceful = ending_ == Ending::kGraceful && !released_;
  if (graceful) writer_.Run(kTurnBytes);
  writer_.Clear();
  if (!graceful || loop_->shutting_down()) {
    ReleaseSocket();
    return;
  }
  channel_->SayGoodbye();
  ::shutdown(fd_, SHUT_WR);
  linger_.expires_after(kLinger);
  linger_.async_wait([self = shared_from_this()](Error) { self->ReleaseSocket(); });
  ArmRead();
}

void Stream::Discard() {
  char scratch[16 << 10];
  for (size_t turn = 0; turn < kTurnBytes; turn += sizeof(scratch)) {
    const ssize_t n = ::read(fd_, scratch, sizeof(scratch));
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (token_parked_) ReleaseSocket();
      return;
    }
  }
  ArmRead();
}

void Stream::ReleaseSocket() {
  if (std::exchange(released_, true)) return;
  Error ignored;
  descriptor_.close(ignored);
  initial_fd_ = Fd();
  linger_.cancel();
  if (shutdown_hook_ != 0) loop_->RemoveShutdownHook(std::exchange(shutdown_hook_, 0));
}

}  // namespace pw::net
