// Landings: the destination memory of incoming payloads, so that the socket writes them in place and they are not copied.
//
// The receiver of a transfer registers the destination (Expect). The transport asks for it (Take) when the header of a part has arrived and
// its payload has not.
//
// Invariants:
//   LD-1  a transfer's bytes are handed out in order, each once: nothing that a peer sends can overwrite received bytes
//   LD-2  destination memory lives until the part being written to it is complete, even if the transfer is withdrawn meanwhile
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/bytes.h"
#include "pathways/net/transport.h"

namespace pw::net {

class Landings {
 public:
  // Registers `place` as the destination of a transfer of `size` bytes. `taken`: the number of leading bytes that are there already.
  void Expect(uint64_t transfer, Place place, size_t size, size_t taken = 0);
  // Removes the transfer. Returns the number of its bytes that were handed out.
  size_t Withdraw(uint64_t transfer);
  // Returns the memory for `bytes` at `offset` of the transfer. Returns no place if they do not come next.
  Place Take(uint64_t transfer, uint64_t offset, size_t bytes);

 private:
  struct Landing {
    Place place;
    size_t size = 0;
    size_t taken = 0;
  };
  Place Next(uint64_t transfer, uint64_t offset, size_t bytes);

  std::mutex mu_;
  absl::flat_hash_map<uint64_t, Landing> landings_;
};

}  // namespace pw::net
