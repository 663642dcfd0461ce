// ResumableStream: one end of an ordered stream of messages that outlives its connections. Pure: no sockets, no clock, no threads.
//
// Each end numbers its messages 1, 2, 3, ... and keeps each message until the other end acknowledges it. When a new connection replaces a
// broken one, each end tells the other the number of the last message it received. Each end then resends the messages after that number.
// A message that arrives a second time is dropped.
//
// Messages travel in batches of consecutive numbers. A message consists of bytes for a frame's header and bytes for its payload.
// It also costs memory while it is kept, and the other end's time when it arrives. So limits count kMessageCost for each message,
// too. Otherwise a window could hold half a million small messages, and heartbeats would wait for seconds.
//
// Two ends of a session use it (client::Link and session::ServedSession), and the link between the controller and a worker
// (resumable_link.h). They send the batches and the acknowledgements.
//
// Invariants:
//   RS-1  the other end accepts the messages in the order of Append, each exactly once, even if connections lose messages
//   RS-2  kept_bytes() is the cost of the messages that were appended and are not acknowledged; the stream does not limit it
//   RS-3  an impossible acknowledgement (of an unsent message) or batch (after a gap) is an error and changes nothing
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"

namespace pw::net {

class ResumableStream {
 public:
  static constexpr size_t kMessageCost = 256;
  struct Message {
    std::string header;
    std::vector<Bytes> payload;

    size_t cost() const;  // kMessageCost and the bytes
  };
  struct Batch {
    uint64_t first = 0;                    // the number of the first message
    std::vector<const Message*> messages;  // valid until the next call of Acknowledge, Receive or Resume
  };

  // --- outgoing messages ---
  // Queues a message and returns its number.
  uint64_t Append(Message message);
  // Returns whether Take has a message to return.
  bool has_unsent() const { return sent_ < acknowledged_ + kept_.size(); }
  // Returns the next unsent messages: at least one, and more until they cost `max_bytes`. From now on they count as sent on this
  // connection. REQUIRES: has_unsent().
  Batch Take(size_t max_bytes);
  uint64_t last_appended() const { return acknowledged_ + kept_.size(); }
  size_t kept_bytes() const { return kept_bytes_; }
  size_t kept_messages() const { return kept_.size(); }
  // Returns the cost of the kept messages that count as sent on this connection.
  size_t in_flight_bytes() const { return in_flight_bytes_; }

  // --- incoming acknowledgements and messages ---
  // Records that the other end has received all messages up to `number`. `taken` gets them.
  absl::Status Acknowledge(uint64_t number, std::deque<Message>* taken = nullptr);
  // Visits the messages that are not acknowledged, with their numbers.
  void ForEachKept(absl::FunctionRef<void(uint64_t number, const Message& message)> visit) const;
  // Records an arrived batch. Returns how many of its leading messages had been received before.
  absl::StatusOr<size_t> Receive(uint64_t first, size_t count);
  // Returns the number of the last message received, which is the number to acknowledge.
  uint64_t received() const { return received_; }

  // Goes on with another process at the other end, which has the messages up to `number`, and counts its own from 1. REQUIRES: number <=
  // last_appended(). `taken` gets those messages.
  void Restart(uint64_t number, std::deque<Message>* taken = nullptr);
  // Begins at an end that has no messages yet: those up to `number` have arrived, by another way.
  void BeginAfter(uint64_t number) { received_ = number; }

  // Returns an error if Resume cannot be called with this number.
  absl::Status CheckResume(uint64_t number) const;
  // Starts on a new connection whose other end has received messages up to `number`: later messages become unsent again. `taken` gets the others.
  absl::Status Resume(uint64_t number, std::deque<Message>* taken = nullptr);
  uint64_t acknowledged() const { return acknowledged_; }

 private:
  std::deque<Message> kept_;  // numbers acknowledged_ + 1, ...
  uint64_t acknowledged_ = 0;
  uint64_t sent_ = 0;  // on this connection, or received on an earlier one; >= acknowledged_
  uint64_t received_ = 0;
  size_t kept_bytes_ = 0;
  size_t in_flight_bytes_ = 0;  // of the sent messages among them
};

}  // namespace pw::net
