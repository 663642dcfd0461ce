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
  int other_processes = 0;                  // how many other processes programs may span, if the plugin supports it
  bool launch_at_once = false;              // the plugin's Execute never waits for device work (launcher.h)
  std::shared_ptr<Launches> launches = {};  // null, or counts what is launched
};

absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeRuntime(const RuntimeOptions& options);

}  // namespace pw::device::pjrt
