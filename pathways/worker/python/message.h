// The messages between a worker and the Python processes beside it (python/pathways/_colocated/host.py has the other end). In both directions a
// message is
//
//   4 bytes   little-endian length of the header
//   header    JSON; "bytes" lists the sizes of the parts
//   parts     each on the next 64-byte boundary of the message
//
// It travels in one packet of a FileSocket. A small message is the packet, behind a byte 'M'. For a large one the packet is a byte 'F' and the size in
// decimal, with an open file that has the message. So the bytes of arrays are copied into memory that both processes map, and through no socket.
//
//   worker -> Python   {"load":f,"name":text,"inputs":[[device,..],..],"outputs":[[device,..],..],"bytes":[n]}    part: the function's text
//                      {"call":n,"function":f,"stream":s,"bytes":[..]}   parts: of each argument the host's shards
//                      {"drop":f}
//   Python -> worker   {"loaded":f}                                      or with "code" and "message": an absl::StatusCode
//                      {"done":n,"bytes":[..]}                           parts: of each result the host's shards; or with "code" and "message"
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
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"
#include "pathways/net/socket.h"

namespace pw::worker {

// A message to a process, whose parts are being filled.
class OutgoingMessage {
 public:
  // `json`: the header without its last brace and without "bytes". RESOURCE_EXHAUSTED if there is no memory for the parts.
  static absl::StatusOr<OutgoingMessage> Create(const std::string& json, absl::Span<const int64_t> sizes,
                                                net::SharedMemoryFactory* memory);

  uint8_t* part(size_t i) const { return data_ + offsets_[i]; }
  // Keeps the memory of the parts.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  // The packet, and the file that goes with it; empty: none.
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
  std::vector<Bytes> parts;
};

// INVALID_ARGUMENT: not of the forms above; the process is then of no more use.
absl::StatusOr<PythonMessage> ReadPacket(std::string packet, net::Fd file);

}  // namespace pw::worker
