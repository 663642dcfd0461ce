// Makes a device runtime over a PJRT plugin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pathways/device/device.h"
#include "pathways/device/pjrt/client_option.h"
#include "pathways/device/pjrt/launches.h"

namespace pw::device::pjrt {

struct RuntimeOptions {
  std::string plugin;                       // path of the plugin
  std::vector<ClientOption> options;        // for PJRT_Client_Create
  int other_processes = 0;                  // the number of other processes that programs may span, if any
  bool launch_at_once = false;              // the plugin's Execute never waits for device work (launcher.h)
  std::shared_ptr<Launches> launches = {};  // null, or counts the launches
};

absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeRuntime(const RuntimeOptions& options);

}  // namespace pw::device::pjrt
