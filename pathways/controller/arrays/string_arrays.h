// String arrays live in the controller: devices have no such type. One cell for each shard, shared by the arrays that have the
// same shard.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/logical_array.h"

namespace pw::controller {

struct StringCell {
  std::optional<Bytes> data;                                  // as the client sent it; nullopt: still on its way
  std::vector<std::weak_ptr<buffers::LogicalArray>> waiting;  // arrays that wait for the bytes, each for one completion
  // Holds the request by which hosts make the strings: they keep their answer for another controller (SessionFunctions).
  std::shared_ptr<void> request = nullptr;

  void Fill(absl::StatusOr<Bytes> bytes) {
    data = bytes.ok() ? *bytes : Bytes();
    Settle(bytes.status());
  }
  void Settle(const absl::Status& status) {
    for (auto& weak : std::exchange(waiting, {})) {
      if (auto array = weak.lock()) array->OnDone(status);
    }
  }
};

using StringCells = std::vector<std::shared_ptr<StringCell>>;

}  // namespace pw::controller
