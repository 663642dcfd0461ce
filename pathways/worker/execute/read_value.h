// ValueReader: reads the value by which a host decides something, such as the predicate of a loop: the bytes of an array's first shard, here.
//
// Invariants:
//   VR-1  `done` is called at most once for each Read, and never after Cancel, the next Read, or the end of the reader
//   VR-2  the value is read although the array's name is released meanwhile
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"

namespace pw::worker {

class ValueReader {
 public:
  using Done = std::function<void(const absl::StatusOr<Bytes>&)>;

  // Both outlive this.
  ValueReader(const WorkerContext* context, DeviceArrays* arrays) : context_(context), arrays_(arrays) {}

  // Reads a value of this size when it exists; perhaps at once. Its error is that of the computation that failed. `what`: names it in errors.
  void Read(ArrayId array, size_t size, std::string what, Done done);
  void Cancel() { reading_ = nullptr; }

 private:
  struct Reading;
  using ReadingRef = std::shared_ptr<Reading>;
  static void Take(const WorkerContext* context, DeviceArrays* arrays, const ReadingRef& reading);

  const WorkerContext* const context_;
  DeviceArrays* const arrays_;
  ReadingRef reading_;
};

}  // namespace pw::worker
