// Tuple: one message along an edge to one destination shard: bytes, or an error instead. A value; copies share the bytes.
#pragma once

#include "absl/status/status.h"
#include "pathways/base/memory/bytes.h"

namespace pw::dataflow {

struct Tuple {
  Bytes data;
  absl::Status error;  // not OK: this tuple is an error

  size_t size() const { return data.size(); }
};

}  // namespace pw::dataflow
