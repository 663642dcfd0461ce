// Receiver: assembles bytes that arrive on a lane in parts. A name identifies the bytes: the number of a host buffer or a fetch.
// A worker has one Receiver for each client (worker/lanes/client_lanes.h), a client one for all lanes (client/lanes.h).
//
// The owner calls Expect with memory for all bytes of a name. LaneEnd::Open gets receive_buffers(), through which the transport writes each part to
// its place in that memory. The owner then passes each part to Add, and takes the whole after the last one. If a lane breaks, the owner
// calls Restart; the next lane continues at received().
//
// Strand-confined; only receive_buffers() is used on the transport's threads.
//
// Invariants:
//   RV-1  parts of a name come in order, none twice, none beyond its end; any other part is refused and changes nothing
//   RV-2  all memory comes from the caller of Expect, and is given back by Take or Drop; arriving bytes never allocate any
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/receive_buffers.h"

namespace pw::lanes {

class Receiver {
 public:
  // Announces the bytes of a name, as many as `memory` holds. REQUIRES: the name is not expected, and the memory is not empty.
  void Expect(uint64_t name, AlignedBytes memory);
  bool expects(uint64_t name) const { return coming_.contains(name); }
  // Returns the number of leading bytes that Add has accepted; 0 for a name that is not expected.
  size_t received(uint64_t name) const;
  // Accepts the part at `offset`. Copies a part that is neither in its place nor the whole. Returns true if all bytes are there.
  // NOT_FOUND: the name is not expected. INVALID_ARGUMENT: the part does not come next, or `total_bytes` is not the expected size.
  absl::StatusOr<bool> Add(uint64_t name, uint64_t offset, uint64_t total_bytes, Bytes part);
  // Returns all bytes of the name and stops expecting it. REQUIRES: Add has returned true.
  Bytes Take(uint64_t name);
  // Stops expecting the name and frees its memory, if it is expected.
  void Drop(uint64_t name);
  // Expects the bytes from received() on once more, because later parts may have been lost with their lane. Does nothing for a
  // name that is not expected. REQUIRES: that lane has closed, so that the transport no longer writes to the memory.
  void Restart(uint64_t name);
  // Like Restart, from the first byte on.
  void Rewind(uint64_t name);

  const std::shared_ptr<net::ReceiveBuffers>& receive_buffers() const { return receive_buffers_; }
  size_t size() const { return coming_.size(); }

 private:
  struct Coming {
    AlignedBytes memory;
    size_t received = 0;
    Bytes whole = {};  // all bytes, if they came as one part elsewhere in memory; `memory` is then unused
  };
  absl::flat_hash_map<uint64_t, Coming> coming_;
  const std::shared_ptr<net::ReceiveBuffers> receive_buffers_ = std::make_shared<net::ReceiveBuffers>();
};

}  // namespace pw::lanes
