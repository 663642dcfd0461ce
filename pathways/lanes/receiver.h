// Receiver: bytes that arrive on a lane in parts, written where they are to lie. A name whose lane broke goes on where it was.
//
// Strand-confined; the landings are for the threads of the transport.
//
// Invariants:
//   RV-1  parts of a name come in order, none twice, none beyond its end; a part that breaks this is refused and changes nothing
//   RV-2  memory is taken by whoever calls Expect, and is given back by Take and Drop; nothing that arrives makes it grow
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/net/landings.h"

namespace pw::lanes {

class Receiver {
 public:
  // Bytes of this name will come, as many as the memory has. REQUIRES: a name that is not expected, and memory that is not empty.
  void Expect(uint64_t name, AlignedBytes memory);
  bool expects(uint64_t name) const { return coming_.contains(name); }
  size_t received(uint64_t name) const;
  // True if that was the last part. NOT_FOUND for a name that is not expected; INVALID_ARGUMENT.
  absl::StatusOr<bool> Add(uint64_t name, uint64_t offset, uint64_t total_bytes, Bytes part);
  // REQUIRES: complete.
  Bytes Take(uint64_t name);
  void Drop(uint64_t name);
  // Its lane has closed, and writes nothing any more: parts that were on their way will come again. Nothing for a name that is not expected.
  void Restart(uint64_t name);

  const std::shared_ptr<net::Landings>& landings() const { return landings_; }
  size_t size() const { return coming_.size(); }

 private:
  struct Coming {
    AlignedBytes memory;
    size_t received = 0;
    Bytes whole = {};  // instead of `memory`, of what came in one part that lay elsewhere
  };
  absl::flat_hash_map<uint64_t, Coming> coming_;
  const std::shared_ptr<net::Landings> landings_ = std::make_shared<net::Landings>();
};

}  // namespace pw::lanes
