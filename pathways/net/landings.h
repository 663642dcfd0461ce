// Landings: memory in which payloads that are on their way shall come to lie, so that the socket writes them there and nobody copies them.
//
// Who expects a transfer says where its bytes belong; the transport asks when the header of a part has arrived and its payload has not.
//
// Memory that has no pages yet is another matter: to make them and map them for writing takes twice as long as all the rest. A part for such memory
// (Place::file) is received where the allocator's blocks are warm, and then written to the file: that needs neither cleared pages nor a mapping.
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
#include "pathways/base/bytes.h"
#include "pathways/net/transport.h"

namespace pw::net {

class Landings {
 public:
  // `taken`: so many of its first bytes are there already.
  void Expect(uint64_t transfer, Place place, size_t size, size_t taken = 0);
  // How many of its bytes have been handed out, or written.
  size_t Withdraw(uint64_t transfer);
  // For `bytes` at `offset` of the transfer; no place if they are not what comes next, or are for Put.
  Place Take(uint64_t transfer, uint64_t offset, size_t bytes);
  // What Take had no place for. False: it is not what comes next of a transfer to a file, or the machine has no memory for it; then nothing more
  // of the transfer lands.
  bool Put(uint64_t transfer, uint64_t offset, const Bytes& payload);

 private:
  struct Landing {
    Place place;
    size_t size = 0;
    size_t taken = 0;
  };
  enum class Way { kMemory, kFile };
  Place Next(uint64_t transfer, uint64_t offset, size_t bytes, Way way);

  std::mutex mu_;
  absl::flat_hash_map<uint64_t, Landing> landings_;
};

}  // namespace pw::net
