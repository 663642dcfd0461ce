// HostBuffers: the bytes that a client puts into arrays, until they have reached their hosts. Small buffers, and strings, go to
// the controller in a frame of the session. All others stay here until the controller says that all hosts have them; meanwhile
// hosts request them. Lanes owns the HostBuffers.
//
// Room. A client announces a large buffer before it stores it. It is admitted when the buffer fits into the limit together with
// the buffers held here; room becomes free as hosts take buffers. If no buffer here is on its way to a host, waiting would not
// help, and it is admitted beyond the limit. Results of host calls are kept even without room: a program waits for them.
//
// Pure: sends through Ways, and knows no connection. Strand-confined.
//
// Invariants:
//   HB-1  each buffer takes one way, whether Store or Make comes first
//   HB-2  a host that asks for a buffer gets its bytes or an error, now or when the buffer is stored
//   HB-3  each announced buffer is admitted once; large buffers in order
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/session/session.h"

namespace pw::client {

class HostBuffers {
 public:
  using Handle = session::Handle;
  struct Limits {
    int64_t in_frame = 64 << 10;  // buffers up to this size go to the controller
    int64_t kept = int64_t{2} << 30;
  };
  struct Ways {
    std::function<void(Handle buffer, absl::StatusOr<Bytes> data)> in_frame;
    std::function<void(HostId host, Handle buffer, const Bytes& data, size_t offset)> on_lane;
    std::function<void(HostId host, Handle buffer, const absl::Status& error)> failed;
    std::function<void(Handle buffer)> done;  // bytes that are still on lanes need not arrive
  };
  // Returns the size of a buffer with this layout.
  static absl::StatusOr<int64_t> BytesOf(const session::HostLayout& layout);

  HostBuffers(const Limits& limits, Ways ways) : limits_(limits), ways_(std::move(ways)) {}

  // Calls `admitted` when the buffer may be stored, perhaps inside this call.
  void Announce(Handle buffer, int64_t bytes, session::StatusCallback admitted);
  // Frees the room of an announced buffer that will not be stored.
  void Forget(Handle buffer);
  // Stores the bytes, or the reason why there are none.
  void Store(Handle buffer, absl::StatusOr<Bytes> data);
  // Decides the way of a buffer from which an array is made. Returns true if hosts will request it.
  bool Make(Handle buffer, const session::HostLayout& layout);

  // Stores bytes that hosts will request, even if they are few. REQUIRES: there are some; the buffer is new.
  void Offer(Handle buffer, Bytes data);

  void OnWant(HostId host, Handle buffer, uint64_t offset, uint64_t total_bytes);  // a host requests the bytes from `offset` on
  // Forgets the requests of the host, which will ask again.
  void OnLaneBroken(HostId host);
  void OnDone(Handle buffer);  // all hosts have the buffer
  // Calls the callbacks of announcements that wait for room with this status.
  void End(const absl::Status& status);

  int64_t kept_bytes() const { return kept_; }
  size_t size() const { return buffers_.size(); }

 private:
  enum class Way { kUnknown, kInFrame, kByLane };
  struct Buffer {
    Way way = Way::kUnknown;  // until an array is made of it
    bool strings = false;
    bool sent = false;      // sent in a frame before an array was made of it
    bool done = false;      // OnDone came before Store
    int64_t announced = 0;  // bytes for which leave was given
    int64_t bytes = 0;      // bytes that the array takes
    std::optional<absl::StatusOr<Bytes>> data;
    std::map<HostId, uint64_t> wanted;  // by host: the offset to start from
  };
  struct Waiting {
    Handle buffer;
    int64_t bytes;
    session::StatusCallback admitted;
  };
  void Keep(Buffer& buffer, absl::StatusOr<Bytes> data);
  void Drop(Handle handle);
  void SendInFrame(Handle handle, Buffer& buffer, absl::StatusOr<Bytes> data);
  void Deliver(HostId host, Handle handle, const Buffer& buffer, uint64_t offset);
  void Admit();

  const Limits limits_;
  const Ways ways_;
  absl::flat_hash_map<Handle, Buffer> buffers_;
  std::deque<Waiting> waiting_;
  int64_t kept_ = 0;       // bytes of data here
  int64_t under_way_ = 0;  // the part of them that hosts take by lane
  int64_t announced_ = 0;  // bytes for which leave was given, and which are not stored yet
};

}  // namespace pw::client
