// Records a plugin's own events through the profiler extension of the PJRT C API.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

// Starts a recording. UNIMPLEMENTED if the plugin lacks the extension. The recording keeps the client.
absl::StatusOr<std::unique_ptr<RuntimeProfile>> StartProfile(std::shared_ptr<const Client> client);

}  // namespace pw::device::pjrt
