// ResumableStream: one end of an ordered stream of messages that outlives its connections. Pure: no sockets, no clock, no threads.
//
// Each end numbers its messages 1, 2, 3, ... and keeps a message until the other end has acknowledged it. When a connection breaks and
// another takes its place, the ends tell each other the number of the last message they have received; each then sends again what
// follows. A message that arrives a second time is dropped.
//
// Messages travel in batches of consecutive numbers. A message is bytes for the header of a frame and bytes for its payload.
//
// Invariants:
//   RS-1  the other end accepts the messages in the order of Append, each exactly once, whatever the connections lose
//   RS-2  kept_bytes() is the size of what has been appended and not acknowledged: the owner bounds it by waiting
//   RS-3  an acknowledgement or a batch that cannot be (of messages never sent, or beyond a gap) is an error, and changes nothing
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"

namespace pw::net {

class ResumableStream {
 public:
  struct Message {
    std::string header;
    std::vector<Bytes> payload;

    size_t size() const;
  };
  struct Batch {
    uint64_t first = 0;  // the number of the first message
    std::vector<const Message*> messages;  // good until the next call of Acknowledge, Receive or Resume
  };

  // --- what this end sends ---
  // Returns the message's number.
  uint64_t Append(Message message);
  // Whether Take would give anything.
  bool has_unsent() const { return sent_ < acknowledged_ + kept_.size(); }
  // The next messages for the connection: at least one, then until they exceed `max_bytes`. REQUIRES: has_unsent().
  Batch Take(size_t max_bytes);
  uint64_t last_appended() const { return acknowledged_ + kept_.size(); }
  size_t kept_bytes() const { return kept_bytes_; }
  size_t kept_messages() const { return kept_.size(); }

  // --- what this end hears ---
  // The other end has everything up to this number.
  absl::Status Acknowledge(uint64_t number);
  // A batch has arrived. Returns how many of its messages, from the beginning, were received before.
  absl::StatusOr<size_t> Receive(uint64_t first, size_t count);
  // The number of the last message received: what acknowledgements say.
  uint64_t received() const { return received_; }

  // A new connection, whose other end has received so much: what follows is unsent again.
  absl::Status Resume(uint64_t number);

 private:
  std::deque<Message> kept_;  // numbers acknowledged_ + 1, ...
  uint64_t acknowledged_ = 0;
  uint64_t sent_ = 0;  // on this connection, or received on an earlier one; >= acknowledged_
  uint64_t received_ = 0;
  size_t kept_bytes_ = 0;
};

}  // namespace pw::net
