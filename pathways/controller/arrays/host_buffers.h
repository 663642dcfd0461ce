// What a session keeps of each host buffer: it waits for its request, its request waits for it, or a fetch fills it. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/bytes.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/arrays/string_arrays.h"
#include "pathways/controller/session.h"

namespace pw::controller {

// Come before the request that names it, or fetched for the client to pick up.
struct StagedBuffer {
  Bytes data;
  bool fetched = false;
  absl::Status error = {};  // why there is no data
};

// Promised to an array before it came.
struct AwaitedBuffer {
  std::weak_ptr<buffers::LogicalArray> array;
  std::shared_ptr<StringCell> cell;  // of string arrays
  std::vector<HostId> hosts;         // empty: nobody wants it any more
  uint64_t transfer = 0;
  int64_t bytes = 0;
};

// A fetch under way will fill it.
struct FillingBuffer {
  bool dropped = false;  // deleted before it came
  std::vector<ResultCallback<Bytes>> lookups;
  StatusCallback done;
};

}  // namespace pw::controller
