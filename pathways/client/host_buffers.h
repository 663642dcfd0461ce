// HostBuffers: the bytes that a client has put into arrays, until they are where they belong. Small ones, and strings, go to the controller in a
// frame of the session; all others stay here until their hosts ask for them, and until the controller says that all of them have got them.
//
// Room. Whoever announces a large buffer gets leave to store it when what is here fits into the limit. What is here drains as hosts take it;
// where none of it is on its way to a host, waiting would not help, and leave is given beyond the limit.
//
// Pure: says through Ways where bytes go, and knows no connection. Strand-confined.
//
// Invariants:
//   HB-1  each buffer goes one way, whichever of Store and Make comes first
//   HB-2  a host that asks for a buffer is answered by its bytes or an error, now or when the buffer is stored
//   HB-3  leave is given in the order of the announcements, each once
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/base/ids.h"
#include "pathways/session/session.h"

namespace pw::client {

class HostBuffers {
 public:
  using Handle = session::Handle;
  struct Limits {
    int64_t in_frame = 64 << 10;  // up to so many bytes go to the controller
    int64_t kept = int64_t{2} << 30;
  };
  struct Ways {
    std::function<void(Handle buffer, absl::StatusOr<Bytes> data)> in_frame;
    std::function<void(HostId host, Handle buffer, const Bytes& data, size_t offset)> on_lane;
    std::function<void(HostId host, Handle buffer, const absl::Status& error)> failed;
    std::function<void(Handle buffer)> done;  // whatever is still on its way on lanes need not arrive
  };
  // How many bytes a buffer has whose elements lie so.
  static absl::StatusOr<int64_t> BytesOf(const session::HostLayout& layout);

  HostBuffers(const Limits& limits, Ways ways) : limits_(limits), ways_(std::move(ways)) {}

  // `admitted` may be called now.
  void Announce(Handle buffer, int64_t bytes, session::StatusCallback admitted);
  // It was announced, and will not be stored.
  void Forget(Handle buffer);
  // Its bytes, or why there are none.
  void Store(Handle buffer, absl::StatusOr<Bytes> data);
  // An array is to be made of it. True: hosts will ask for it.
  bool Make(Handle buffer, const session::HostLayout& layout);

  void OnWant(HostId host, Handle buffer, uint64_t offset, uint64_t total_bytes);
  // The host will ask again for the buffers that it asked for.
  void OnLaneBroken(HostId host);
  void OnDone(Handle buffer);
  // Answers those who wait for room.
  void End(const absl::Status& status);

  int64_t kept_bytes() const { return kept_; }
  size_t size() const { return buffers_.size(); }

 private:
  enum class Way { kUnknown, kInFrame, kByLane };
  struct Buffer {
    Way way = Way::kUnknown;  // until an array is made of it
    bool strings = false;
    bool sent = false;      // in a frame, before an array was made of it
    bool done = false;      // before it was stored
    int64_t announced = 0;  // for which leave was given
    int64_t bytes = 0;      // that the array takes
    std::optional<absl::StatusOr<Bytes>> data;
    std::map<HostId, uint64_t> wanted;  // from which offset
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
  int64_t under_way_ = 0;  // of them, those that hosts take
  int64_t announced_ = 0;  // for which leave was given, and which have not come
};

}  // namespace pw::client
