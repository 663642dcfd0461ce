// Messages between a worker and the Python processes beside it (python/pathways/_colocated/host.py has the other end). In both
// directions a message is
//
//   4 bytes   little-endian length of the header
//   header    JSON; "bytes" lists the sizes of the parts
//   parts     each on the next 64-byte boundary of the message
//
// A message travels in one packet of a FileSocket. The packet of a small message is a byte 'M' and the message. The packet of a
// large one is a byte 'F' or 'L' and the size in decimal, with an open file that holds the message. So the bytes of arrays are copied
// into memory that both processes map, and through no socket. A file of 'L' is leased (shared_memory.h): the process writes it again when the
// worker maps it no more.
//
//   worker -> Python   {"load":f,"name":text,"inputs":[[device,..],..],"outputs":[[device,..],..],"bytes":[n]}    part: the function's text;
//                      with "bound":[[device,physical],..] if the text names devices of virtual slices
//                      {"call":n,"function":f,"stream":"s","bytes":[..]}   parts: the host's shards of each argument
//                      {"drop":f}
//   Python -> worker   {"loaded":f}                                      or with "code" and "message": an absl::StatusCode; with "seconds" if the
//                                                                        client's program limits the time of its calls
//                      {"done":n,"bytes":[..]}                           parts: the host's shards of each result; or with "code" and "message"
//
// Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/sockets/socket.h"

namespace pw::worker {

// A message to a process. The caller fills its parts before it is sent.
class OutgoingMessage {
 public:
  // `json`: the header without its last brace and without "bytes". RESOURCE_EXHAUSTED if there is no memory for the parts.
  static absl::StatusOr<OutgoingMessage> Create(const std::string& json, absl::Span<const int64_t> sizes,
                                                net::SharedMemoryFactory* memory);

  uint8_t* part(size_t i) const { return data_ + offsets_[i]; }
  // Keeps the memory of the parts alive.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  // Return the packet, and the file that goes with it (empty: none).
  const std::string& packet() const { return *packet_; }
  const Bytes& file() const { return file_; }

 private:
  uint8_t* data_ = nullptr;
  std::vector<size_t> offsets_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<std::string> packet_;
  Bytes file_;
};

// A message from a process.
struct PythonMessage {
  enum class Kind { kLoaded, kDone };
  Kind kind = Kind::kDone;
  uint64_t number = 0;
  absl::Status status;
  double seconds = 0;  // that the calls of a loaded function may take; 0: the program sets no limit
  std::vector<Bytes> parts;
};

// Parses a packet of a process. INVALID_ARGUMENT: it has none of the forms above, so the process must be ended.
absl::StatusOr<PythonMessage> ReadPacket(std::string packet, net::Fd file);

}  // namespace pw::worker
