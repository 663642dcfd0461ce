// Device lists for tests.
#pragma once

#include <vector>

#include "pathways/base/ids.h"

namespace pw::buffers {

// Returns `n` devices: first, first + 1, ...
inline std::vector<DeviceId> Devices(int n, int first = 0) {
  std::vector<DeviceId> devices(n);
  for (int i = 0; i < n; ++i) devices[i] = DeviceId(first + i);
  return devices;
}

}  // namespace pw::buffers
