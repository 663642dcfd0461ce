#include "pathways/device/simulated/contents.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::device {

absl::Status CheckPlace(const std::vector<DeviceInfo>& devices, int device, absl::string_view kind) {
  if (device < 0 || device >= static_cast<int>(devices.size()))
    return absl::InvalidArgumentError(absl::StrCat("no local device ", device));
  for (const MemoryInfo& memory : devices[device].memories) {
    if (kind.empty() || memory.kind == kind) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("no memory of kind '", kind, "'"));
}

Future<Unit> CopyOnceThere(Future<Bytes> contents, uint8_t* out, size_t size, std::shared_ptr<const void> owner) {
  Promise<Unit> promise;
  Future<Unit> future = promise.future();
  contents.OnReady(
      [out, size, owner = std::move(owner), promise = std::move(promise)](const absl::StatusOr<Bytes>& bytes) mutable {
        if (!bytes.ok()) return promise.Set(bytes.status());
        if (bytes->size() != size) return promise.Set(absl::InvalidArgumentError("the memory for a host copy has another size"));
        if (size > 0) std::memcpy(out, bytes->data(), size);
        promise.Set(Unit());
      });
  return future;
}

}  // namespace pw::device
