// KeptRequests: the requests of a session that the controller has carried out and that are not settled (session.proto, Controllers that return). If
// the controller ends, another one carries them out again.
//
// The bytes of a host buffer come in a request of their own, which is settled at once. They are kept until the request that makes an array of
// them is settled.
//
// Memory. At most kMostBytes are kept. If there are more, all bytes are dropped, and until those requests are settled no other controller can restore
// the session.
//
// Pure. Strand-confined.
//
// Invariant KR-1: the bytes of a request are here from its acknowledgement until it is settled, or lost() says that they are not
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "pathways/net/resumable/resumable_stream.h"
#include "pathways/session/session.h"

namespace pw::client {

class KeptRequests {
 public:
  using Message = net::ResumableStream::Message;
  using Handle = session::Handle;
  static constexpr size_t kMostBytes = size_t{256} << 20;

  explicit KeptRequests(size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Notes that a request makes an array of these buffers, whose bytes come in requests, or carries the bytes of one. Called before it is
  // acknowledged.
  void NoteMaker(uint64_t number, std::vector<Handle> buffers);
  void NoteCarrier(uint64_t number, Handle buffer);

  // The controller has carried out the requests from `first` on.
  void Keep(uint64_t first, std::deque<Message> messages);
  // The controller says that these requests are settled: pairs of the first and the last. Others are ignored.
  void Settle(absl::Span<const uint64_t> ranges);

  bool IsSettled(uint64_t number) const { return number <= last_ && !kept_.contains(number); }
  // All requests up to this one are settled.
  uint64_t settled_up_to() const;
  // Returns how many requests are not settled and not kept.
  size_t lost() const { return lost_; }
  size_t size() const { return kept_.size(); }
  size_t bytes() const { return bytes_; }
  // Visits the kept requests in order.
  void ForEach(absl::FunctionRef<void(uint64_t number, const Message& message)> visit) const;

 private:
  struct Request {
    Message message;
    bool lost = false;     // its bytes are not kept
    bool settled = false;  // kept for its buffer
  };
  void SettleOne(uint64_t number);
  void Drop(std::map<uint64_t, Request>::iterator request);

  size_t most_bytes_;
  std::map<uint64_t, Request> kept_;
  uint64_t last_ = 0;  // that was acknowledged
  size_t bytes_ = 0;
  size_t lost_ = 0;
  absl::flat_hash_map<uint64_t, std::vector<Handle>> buffers_of_;  // by the request that makes an array of them
  absl::flat_hash_map<uint64_t, Handle> carried_by_;               // the buffer, by the request that carries it
  struct Buffer {
    uint64_t maker = 0, carrier = 0;  // 0: not known yet
  };
  absl::flat_hash_map<Handle, Buffer> buffers_;
};

}  // namespace pw::client
