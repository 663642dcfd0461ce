// Host buffers of a session in their three states: the buffer waits for its request, its request waits for it, or a fetch fills
// it. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/arrays/string_arrays.h"
#include "pathways/controller/session.h"

namespace pw::controller {

// A buffer that came before the request that names it, or that was fetched for the client to pick up.
struct StagedBuffer {
  Bytes data;
  bool fetched = false;
  absl::Status error = {};  // the client could not send the bytes: then `data` is empty
};

// A buffer that was promised to an array before its bytes came.
struct AwaitedBuffer {
  std::weak_ptr<buffers::LogicalArray> array;
  std::shared_ptr<StringCell> cell;  // of string arrays
  std::vector<HostId> hosts;         // empty: no host needs it any more
  uint64_t transfer = 0;
  int64_t bytes = 0;
};

// A buffer that a fetch under way will fill.
struct FillingBuffer {
  bool dropped = false;  // deleted before the fetch ended
  std::vector<ResultCallback<Bytes>> lookups;
  StatusCallback done;
};

}  // namespace pw::controller
