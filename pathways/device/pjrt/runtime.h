// Makes a device runtime over a PJRT plugin.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pathways/device/device.h"
#include "pathways/device/pjrt/client_option.h"
#include "pathways/device/pjrt/launches.h"
#include "pathways/device/world.h"

namespace pw::device::pjrt {

struct RuntimeOptions {
  std::string plugin;                       // path of the plugin
  std::vector<ClientOption> options;        // for PJRT_Client_Create
  int other_processes = 0;                  // of named processes (processes.h): how many others programs may span
  std::optional<World> world = {};          // set: programs may span the processes of this world, and no others
  bool launch_at_once = false;              // the plugin's Execute never waits for device work (launcher.h)
  std::shared_ptr<Launches> launches = {};  // null, or counts the launches
};

absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeRuntime(const RuntimeOptions& options);

}  // namespace pw::device::pjrt
