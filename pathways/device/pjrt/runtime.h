// The device runtime over a PJRT plugin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pathways/device/device.h"
#include "pathways/device/pjrt/client_option.h"

namespace pw::device::pjrt {

struct RuntimeOptions {
  std::string plugin;                 // path of the plugin
  std::vector<ClientOption> options;  // for PJRT_Client_Create
  int other_processes = 0;            // that programs may span, for plugins that can
};

absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeRuntime(const RuntimeOptions& options);

}  // namespace pw::device::pjrt
