// Helpers for buffers of simulated devices: placement checks and copies to the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pathways/base/threads/future.h"
#include "pathways/device/device.h"

namespace pw::device {

// Checks that the device has such a memory. An empty kind is the device's default.
absl::Status CheckPlace(const std::vector<DeviceInfo>& devices, int device, absl::string_view kind);

// Copies the contents to `out` once they exist. `owner` keeps `out` alive until then.
Future<Unit> CopyOnceThere(Future<Bytes> contents, uint8_t* out, size_t size, std::shared_ptr<const void> owner);

}  // namespace pw::device
