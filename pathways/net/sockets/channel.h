// Channel: moves the bytes of one connection through its socket, as they are (PlainChannel) or encrypted (tls_channel.h).
//
// Read and Write may run at the same time, each on one thread.
#pragma once

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "absl/types/span.h"

namespace pw::net {

class Channel {
 public:
  virtual ~Channel() = default;

  // Reads like readv: returns the number of bytes, 0 at the end of the stream, or -1 and errno. If it returns fewer bytes than
  // there is room for, no more have arrived.
  virtual ssize_t Read(absl::Span<const iovec> space) = 0;
  // Returns whether this may hold bytes that waiting for the socket to become readable would miss.
  virtual bool may_hold_input() const = 0;
  // Writes like sendmsg, without SIGPIPE. Accepted bytes may wait here until Flush sends them.
  virtual ssize_t Write(absl::Span<iovec> pieces) = 0;
  // Sends the waiting bytes. Returns 0 when none is left, else the errno; EAGAIN: the socket accepts no more for now.
  virtual int Flush() = 0;
  // Tells the peer that the stream ends here, if the socket accepts that at once.
  virtual void SayGoodbye() = 0;
};

class PlainChannel final : public Channel {
 public:
  explicit PlainChannel(int fd) : fd_(fd) {}

  ssize_t Read(absl::Span<const iovec> space) override { return ::readv(fd_, space.data(), static_cast<int>(space.size())); }
  bool may_hold_input() const override { return false; }
  ssize_t Write(absl::Span<iovec> pieces) override {
    msghdr message = {};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  int Flush() override { return 0; }
  void SayGoodbye() override {}

 private:
  const int fd_;
};

}  // namespace pw::net
