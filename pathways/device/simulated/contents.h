// What the buffers of simulated devices have in common: where they may lie, and how what they hold reaches memory of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pathways/base/future.h"
#include "pathways/device/device.h"

namespace pw::device {

// Is there such a memory, on such a device? An empty kind is the device's own.
absl::Status CheckPlace(const std::vector<DeviceInfo>& devices, int device, absl::string_view kind);

// Copies to `out` once there is something to copy. `owner` keeps `out` alive until then.
Future<Unit> CopyOnceThere(Future<Bytes> contents, uint8_t* out, size_t size, std::shared_ptr<const void> owner);

}  // namespace pw::device
