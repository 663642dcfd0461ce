// Devices of tests.
#pragma once

#include <vector>

#include "pathways/base/ids.h"

namespace pw::buffers {

// first, first + 1 ...
inline std::vector<DeviceId> Devices(int n, int first = 0) {
  std::vector<DeviceId> devices(n);
  for (int i = 0; i < n; ++i) devices[i] = DeviceId(first + i);
  return devices;
}

}  // namespace pw::buffers
