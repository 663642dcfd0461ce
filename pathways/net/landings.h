// Landings: memory in which payloads that are on their way shall come to lie, so that the socket writes them there and nobody copies them.
//
// Who expects a transfer says where its bytes belong; the transport asks when the header of a part has arrived and its payload has not.
//
// Invariants:
//   LA-1  a byte is handed out once, and a transfer's bytes in order: what has arrived is not written to again, whatever a peer says
//   LA-2  memory lives until the part that is being written to it is complete, also if it is withdrawn meanwhile
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "pathways/net/transport.h"

namespace pw::net {

class Landings {
 public:
  void Expect(uint64_t transfer, Place place, size_t size);
  // How many of its bytes have been handed out.
  size_t Withdraw(uint64_t transfer);
  // For `bytes` at `offset` of the transfer; no place if they are not what comes next.
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
