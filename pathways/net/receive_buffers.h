// ReceiveBuffers: the destination memory of incoming transfers. Transports write payloads into it directly, so no copy follows.
//
// A transfer comes in parts, each a frame. The receiver registers the memory for all of them (Expect). When the header of a part
// has arrived and its payload has not, the connection's handler gets the memory for the payload (Take, in PlaceFor of
// transport.h).
//
// Invariants:
//   LD-1  Take hands out a transfer's memory in order, each byte once: nothing that a peer sends can overwrite received bytes
//   LD-2  the memory lives until the part being written to it is complete, even if the transfer is withdrawn meanwhile
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/transport.h"

namespace pw::net {

class ReceiveBuffers {
 public:
  // Registers `place` as the destination of a transfer of `size` bytes, of which the first `taken` are in it already.
  void Expect(uint64_t transfer, Place place, size_t size, size_t taken = 0);
  // Removes the transfer. Returns the number of its bytes that were handed out.
  size_t Withdraw(uint64_t transfer);
  // Returns the memory for the transfer's `bytes` from `offset` on. Returns no place if the transfer is not registered, or these are not
  // its next bytes: then the transport allocates memory for the payload.
  Place Take(uint64_t transfer, uint64_t offset, size_t bytes);

 private:
  struct Landing {
    Place place;
    size_t size = 0;
    size_t taken = 0;
  };
  Place Next(uint64_t transfer, uint64_t offset, size_t bytes);

  std::mutex mu_;
  absl::flat_hash_map<uint64_t, Landing> receive_buffers_;
};

}  // namespace pw::net
